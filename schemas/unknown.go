package schemas

import (
	"fmt"
	"slices"
	"strings"
)

// unknown words a field that the schema does not have, with the one that was
// probably meant.
func unknown(schemaURL, name string) string {
	props, _ := rawAt(schemaURL)["properties"].(map[string]any)
	if best, ok := nearest(name, props); ok {
		return fmt.Sprintf("unknown field; did you mean %q?", best)
	}
	return "unknown field"
}

// plain is a name without what people mix up in names.
func plain(name string) string { return strings.ToLower(withoutSeams.Replace(name)) }

var withoutSeams = strings.NewReplacer("-", "", "_", "")

// nearest finds the field whose name is at most a third away from name.
func nearest(name string, props map[string]any) (string, bool) {
	if len(name) > maxName {
		return "", false
	}
	best, least := "", len(name)/3+1
	names := make([]string, 0, len(props))
	for p := range props {
		names = append(names, p)
	}
	slices.Sort(names)
	for _, p := range names {
		if d := distance(plain(name), plain(p)); d < least {
			best, least = p, d
		}
	}
	return best, best != ""
}

// distance counts the letters to insert, remove, replace or swap with the next
// to turn a into b.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
