# Sandjet. `make` alone prints what there is. Only Go, make and git are needed
# for demo, test and build; what else is there is used and named.

GO        ?= go
BIN       := bin
TOOLS     := .cache/bin
PKG       ?= ./...
RUN       ?=
COUNT     ?= 1
RACE      ?=
TIMEOUT   ?= 15m
FUZZTIME  ?= 10s
BENCHTIME ?= 1s
BENCH     ?= .
VERSION   ?= $(or $(patsubst v%,%,$(shell git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null)),0.1.0-dev+$(shell git rev-parse --short HEAD 2>/dev/null || echo none))
LDFLAGS   := -s -w -X main.version=$(VERSION) -X github.com/sandjet/sandjet/internal/worker.Version=$(VERSION)

TESTFLAGS := -count=$(COUNT) -timeout=$(TIMEOUT) $(if $(RUN),-run='$(RUN)') $(if $(RACE),-race)

.DEFAULT_GOAL := help
.PHONY: help demo up test race test-e2b-live crashpoints vet fmt lint vuln bench build schemas generate fuzz-short chaos chaos-long soak clean

help: ## Print this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: ## Run the whole story once on free ports: provision, clone, test, files, pause, resume, destroy, pull request
	@$(GO) run ./cmd/devstack demo

up: ## Start the development stack and keep it up (data in .cache/devstack)
	@$(GO) run ./cmd/devstack up --data .cache/devstack

test: vet ## Vet and run every test; ends by naming what real parts were missing (RACE=1 RUN=Name PKG=./internal/x/...)
	@$(GO) run ./internal/testreport $(GO) test $(TESTFLAGS) $(PKG)

race: ## The same under the race detector
	@$(MAKE) --no-print-directory test RACE=1

test-e2b-live: ## Our client against E2B's own service, at most 16 sandboxes of 2 minutes (E2B_API_KEY=... E2B_TEMPLATE=base)
	@SANDJET_LIVE=1 $(GO) test -count=1 -timeout=20m -v -run='^TestLive$$' ./internal/e2b

crashpoints: ## Every boundary between an effect and its record x crash, error, lost answer, pause: about 15 minutes (CRASHPOINTS=e2b.create=lost CRASHPOINTS_SEED=1)
	@CRASHPOINTS=$(or $(CRASHPOINTS),all) $(GO) test -count=1 -timeout=60m -run='^TestCrashPoints$$' -v ./internal/worker | grep -E '^ *(---|ok|FAIL|panic|[a-z_]+_test.go)'

vet: ## go vet, and gofmt on every file in the tree
	@$(GO) vet $(PKG)
	@$(GO) vet -tags faultpoints ./internal/point
	@out=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); \
	  if [ -n "$$out" ]; then echo "gofmt would change:"; echo "$$out"; exit 1; fi

fmt: $(TOOLS)/gofumpt ## Format every file that is not generated
	@$(TOOLS)/gofumpt -w $$(git ls-files -co --exclude-standard '*.go' | grep -v -e '\.pb\.go$$' -e '\.connect\.go$$')

lint: $(TOOLS)/golangci-lint ## golangci-lint with .golangci.yml (the first time compiles it: minutes)
	@$(TOOLS)/golangci-lint run $(PKG)

vuln: $(TOOLS)/govulncheck ## Known vulnerabilities in what the binaries reach (asks vuln.go.dev)
	@$(TOOLS)/govulncheck $(PKG)

bench: ## The worker beside the straight-line program, in ratios, about 2 minutes; or a package's own (BENCH=Name PKG=./internal/x COUNT=6)
ifeq ($(PKG),./...)
	$(GO) test -run='^$$' -bench=Beside -benchtime=1x -timeout=5m ./internal/bench
else
	@$(GO) test -run='^$$' -bench='$(BENCH)' -benchmem -benchtime=$(BENCHTIME) -count=$(COUNT) $(PKG)
endif

build: ## Build the three commands into bin/, stripped, and print their sizes
	@mkdir -p $(BIN)
	@for c in worker publisher devstack; do \
	  tags=urfave_cli_no_template; [ $$c != publisher ] || tags=; \
	  $(GO) build -trimpath -tags "$$tags" -ldflags '$(LDFLAGS)' -o $(BIN)/$$c ./cmd/$$c || exit 1; \
	  printf '  %-10s %5.1f MB\n' $$c "$$(wc -c < $(BIN)/$$c | awk '{print $$1 / 1e6}')"; \
	done

schemas: ## Check the schemas against the Go types, and the AsyncAPI document with its own parser (needs node and npm)
	@$(GO) test -count=1 ./schemas/...
	@if command -v node >/dev/null && command -v npm >/dev/null; then \
	  [ -d .ci/asyncapi/node_modules ] || npm ci --prefix .ci/asyncapi --no-audit --no-fund --ignore-scripts; \
	  node .ci/asyncapi/check.mjs $(firstword $(wildcard schemas/asyncapi.*)); \
	elif [ -n "$$REQUIRE_REAL" ]; then echo "node or npm is missing"; exit 1; \
	else echo "SKIPPED the AsyncAPI parser: node or npm is missing"; fi

generate: $(TOOLS)/protoc-gen-go $(TOOLS)/protoc-gen-connect-go ## Generate envd's wire from its .proto files (needs protoc) and run go generate
	@cd internal/e2b/envd && PATH="$(CURDIR)/$(TOOLS):$$PATH" protoc -I . \
	  --go_out=. --go_opt=paths=source_relative \
	  --connect-go_out=. --connect-go_opt=paths=source_relative \
	  process/process.proto filesystem/filesystem.proto
	@$(GO) generate $(PKG)

fuzz-short: ## Run every fuzz target for FUZZTIME (10s)
	@for p in $$($(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' $(PKG)); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
	    echo "$$p $$f"; $(GO) test -run='^$$' -fuzz="^$$f\$$" -fuzztime=$(FUZZTIME) $$p || exit 1; \
	  done; \
	done

chaos: ## The fault campaign and its negative controls, some minutes (SEED=1 JOBS=250 FAULTS=30)
	@$(GO) run -buildvcs=false ./internal/chaos/campaign -seed $(or $(SEED),1) -jobs $(or $(JOBS),250) -faults $(or $(FAULTS),30) \
	  -loud 1048576 -controls also

# Rounds of some 1,250 jobs, two at a time: in half an hour they do 10,000 jobs and 2,000 faults.
chaos-long: ## The campaign alone, at the size you ask for (SEED= JOBS= FAULTS= ROUNDS= KINDS= OFF= KEEP=1)
	@$(GO) run -buildvcs=false ./internal/chaos/campaign -seed $(or $(SEED),1) -jobs $(or $(JOBS),2000) -faults $(or $(FAULTS),400) \
	  -rounds $(or $(ROUNDS),$(shell echo $$((($(or $(JOBS),2000) + 1249) / 1250)))) \
	  $(if $(KINDS),-kinds $(KINDS)) $(if $(OFF),-off $(OFF)) $(if $(KEEP),-keep)

soak: ## Steady load with mild faults for MINUTES (30); fails if memory, files or goroutines keep growing
	@$(GO) run -buildvcs=false ./internal/chaos/soak -minutes $(or $(MINUTES),30) -seed $(or $(SEED),1)

clean: ## Remove what was built here
	@rm -rf $(BIN) .cache

# The tools' versions stand in tools/go.mod, away from the product's modules.
$(TOOLS)/%: tools/go.mod
	@GOBIN="$(CURDIR)/$(TOOLS)" $(GO) -C tools install $$(sed -n 's#^\t\([^ ]*/$*\)$$#\1#p' tools/go.mod)
	@touch $@
