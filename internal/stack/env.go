package stack

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Var is one environment variable.
type Var struct{ Name, Value string }

// WriteEnv writes the variables as KEY=VALUE lines, the form that shells, make
// and docker read.
func WriteEnv(w io.Writer, vars []Var) error {
	for _, v := range vars {
		if _, err := fmt.Fprintf(w, "%s=%s\n", v.Name, v.Value); err != nil {
			return err
		}
	}
	return nil
}

// WriteEnvFile writes the variables to a file that only its owner may read.
// Whoever waits for the file to appear finds it whole.
func WriteEnvFile(path string, vars []Var) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".env-")
	if err != nil {
		return fmt.Errorf("env file: %w", err)
	}
	defer os.Remove(f.Name()) // gone already when all went well
	err = WriteEnv(f, vars)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("env file: %w", err)
	}
	return nil
}
