package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"
)

// pageSize is the most a worker hands out at once.
const pageSize = 1000

func limitFlag() cli.Flag {
	return &cli.IntFlag{Name: "limit", Usage: "show `N` at most; 0 shows all", Value: 100, Validator: func(n int) error {
		if n < 0 {
			return errors.New("want 0 or more")
		}
		return nil
	}}
}

// pages collects up to limit items, page by page; 0 means all. next is not
// empty if there are more.
func pages[T any](limit int, page func(n int, cursor string) ([]T, string, error)) (all []T, next string, err error) {
	all = []T{}
	for {
		n := pageSize
		if limit > 0 {
			n = min(n, limit-len(all))
		}
		items, cursor, err := page(n, next)
		if err != nil {
			return nil, "", err
		}
		all, next = append(all, items...), cursor
		if next == "" || limit > 0 && len(all) >= limit {
			return all, next, nil
		}
	}
}

// list prints a table, or says that it would be empty or is not whole.
func (a *App) list(header []string, rows [][]string, what, next string) error {
	if len(rows) == 0 {
		a.note("no %s", what)
		return nil
	}
	if err := a.table(header, rows); err != nil {
		return err
	}
	if next != "" {
		a.note("there are more %s: raise --limit, or --limit 0 for all", what)
	}
	return nil
}

func oneOf(s string, names []string) error {
	if slices.Contains(names, s) {
		return nil
	}
	return fmt.Errorf("want one of %s", strings.Join(names, ", "))
}
