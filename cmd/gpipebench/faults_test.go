//go:build linux

package main

import (
	"path/filepath"
	"testing"

	"gpipebench/cmd/gpipebench/faultstest"
	"gpipebench/internal/testkit"
)

// The program on bad inputs and faults: faultstest has the cases.
func TestFaults(t *testing.T) {
	repository := testkit.Must(filepath.Abs("../.."))(t)
	faultstest.Test(t, faultstest.Program{Run: run, Executable: program, Env: []string{asCommand + "=1"}, Repository: repository, Spec: specOf}, testing.Short())
}
