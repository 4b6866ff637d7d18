//go:build linux

package main

import (
	"path/filepath"
	"testing"

	"gpipebench/cmd/gpipebench/faultstest"
)

// The program on bad inputs and faults: faultstest has the cases.
func TestFaults(t *testing.T) {
	repository, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	faultstest.Test(t, faultstest.Program{Run: run, Executable: program, Env: []string{asCommand + "=1"}, Repository: repository, Spec: specOf}, testing.Short())
}
