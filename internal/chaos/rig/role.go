package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// A program that uses the rig is also the program of some of its processes:
// started again with these variables it is a NATS server or the sandbox server.
const (
	roleVar   = "SANDJET_CHAOS_ROLE"
	configVar = "SANDJET_CHAOS_CONFIG"
)

// readyWord is what a role says when it can be used.
const readyWord = "the role is ready"

// PlayRole is to be called first by every program that uses the rig. Where the
// process is one of the rig's own it plays its part, to its end, and reports true.
func PlayRole() bool {
	role := os.Getenv(roleVar)
	if role == "" {
		return false
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	config := []byte(os.Getenv(configVar))
	err := fmt.Errorf("there is no role %q", role)
	switch role {
	case "nats":
		err = natsRole(ctx, config)
	case "e2b":
		err = e2bRole(ctx, config)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		os.Exit(1)
	}
	return true
}

// role starts this program again in a role.
func role(name, role, log string, config any) (*Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	body, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleVar+"="+role, configVar+"="+string(body))
	return start(name, log, cmd)
}
