// Package browser has the tests of this project's pages in browsers: in Chromium by its own protocol, and in
// Firefox by WebDriver BiDi. They need a program, bin/gpipebench, that make playground built.
package browser

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// tab is a page of a browser.
type tab interface {
	open(address string) error
	// eval runs an expression of the page, waits for its promise, and reads its value into a pointer; nil: nothing is read.
	eval(expression string, into any) error
	resize(width, height int, dark bool) error
	screenshot() ([]byte, error)
	console() []string // what the page has said there
}

// find is a browser's path; without one the test is skipped, or fails where CI is set.
func find(t *testing.T, names ...string) string {
	for _, name := range names {
		if at, err := exec.LookPath(name); err == nil {
			return at
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("want %s", names[0])
	}
	t.Skipf("there is no %s here", names[0])
	return ""
}

// shoot leaves a picture of the page in the directory SHOTS, if that is set.
func shoot(t *testing.T, page tab, name string) {
	shots := os.Getenv("SHOTS")
	if shots == "" {
		return
	}
	png, err := page.screenshot()
	must(t, err)
	must(t, os.WriteFile(filepath.Join(shots, name+".png"), png, 0o644))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
