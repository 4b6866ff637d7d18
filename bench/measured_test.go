//go:build unix

package main

import (
	"os"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// asChild has the test's binary print a line, on some memory.
const asChild = "-child"

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 2 && os.Args[1] == measureCommand:
		os.Exit(measure(os.Args[2], os.Args[3:]))
	case len(os.Args) > 2 && os.Args[1] == asChild:
		if os.Args[2] == "large" {
			touched(100 << 20)
		}
		if os.Args[2] == "fails" {
			os.Stderr.WriteString("out of paper\n")
			os.Exit(3)
		}
		os.Stdout.WriteString("done")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// touched is memory that is resident.
func touched(bytes int) []byte {
	b := make([]byte, bytes)
	for i := 0; i < len(b); i += 1024 {
		b[i] = 1
	}
	return b
}

// TestMeasured: a program's memory is its own, whatever that of who measures it.
func TestMeasured(t *testing.T) {
	const most = 400 << 20 // the race detector takes three times what a program asks for
	held := touched(most)
	for what, least := range map[string]int64{"small": 1 << 20, "large": 100 << 20} {
		out, rss, err := measured(os.Args[0], asChild, what)
		if err != nil || string(out) != "done" {
			t.Fatalf("%s: %q, %v", what, out, err)
		}
		if rss < least || rss >= most {
			t.Errorf("%s: %d MiB resident, want %d or more, and less than the %d held here", what, rss>>20, least>>20, most>>20)
		}
	}
	testkit.Equal(t, held[1024], 1, "the memory is gone")
	if _, _, err := measured(os.Args[0], asChild, "fails"); err == nil || !strings.HasSuffix(err.Error(), "out of paper") {
		t.Errorf("a program that fails: %v", err)
	}
	_, _, err := measured("/no/such/program")
	testkit.Fails(t, err, "no such file")
}
