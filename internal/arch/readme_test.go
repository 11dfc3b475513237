package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/worker"
)

// The table of the README lists every setting of the worker with its default,
// and none that does not exist.
func TestReadmeListsEverySetting(t *testing.T) {
	t.Parallel()
	readme := read(t, "README.md")
	_, table, ok := strings.Cut(readme, "\n## Configuration\n")
	require.True(t, ok)
	table, _, _ = strings.Cut(table, "\n## ")

	defaults := map[string]string{"E2B_API_KEY": ""}
	for _, s := range worker.Settings() {
		defaults[s.Env] = s.Default
	}
	var listed []string
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 {
			continue
		}
		for _, m := range regexp.MustCompile("`([A-Z0-9_]+)`").FindAllStringSubmatch(cells[1], -1) {
			want, ok := defaults[m[1]]
			require.True(t, ok, "the README lists %s, which is no setting", m[1])
			require.Equal(t, want, strings.Trim(strings.TrimSpace(cells[3]), "`"), "default of %s", m[1])
			listed = append(listed, m[1])
		}
	}
	for env := range defaults {
		require.True(t, slices.Contains(listed, env), "the README does not list %s", env)
	}
}

// The tests that the README and the documents call as witnesses exist.
func TestDocumentsNameRealTests(t *testing.T) {
	t.Parallel()
	have := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(t `).FindAllSubmatch(b, -1) {
			have[string(m[1])] = true
		}
		return err
	})
	require.NoError(t, err)
	for _, doc := range documents(t) {
		for _, m := range regexp.MustCompile("[` ](Test[A-Z]\\w+)[` ]").FindAllStringSubmatch(read(t, doc), -1) {
			require.True(t, have[m[1]], "%s calls %s as a witness: there is no such test", doc, m[1])
		}
	}
}

// Links inside the repository lead somewhere.
func TestDocumentsLinkToFiles(t *testing.T) {
	t.Parallel()
	for _, doc := range documents(t) {
		for _, m := range regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(read(t, doc), -1) {
			if !strings.Contains(m[1], "://") {
				_, err := os.Stat(filepath.Join("../..", filepath.Dir(doc), m[1]))
				require.NoError(t, err, "%s links to %s", doc, m[1])
			}
		}
	}
}

func documents(t *testing.T) []string {
	t.Helper()
	docs, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, docs)
	docs = append(docs, "../../README.md", "../../CONTRIBUTING.md")
	for i, doc := range docs {
		docs[i] = strings.TrimPrefix(doc, "../../")
	}
	return docs
}

func read(t *testing.T, doc string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../..", doc))
	require.NoError(t, err)
	return string(b)
}
