package main

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// Commands that README.md, ARTIFACT.md and docs show are ones that there are, with flags that
// there are. What docs/howto.md adds is left out.
func TestDocumentedCommands(t *testing.T) {
	testkit.NotRaced(t)
	shown := 0
	for _, name := range []string{"README.md", "ARTIFACT.md", "docs/CONTRIBUTING.md", "docs/howto.md", "docs/design.md", "docs/tutorial.md", "docs/cluster.md"} {
		f := testkit.Must(os.Open(filepath.Join("..", "..", name)))(t)
		defer f.Close()
		scanner := bufio.NewScanner(f)
		code, line, n := false, "", 0
		for scanner.Scan() {
			n++
			text := scanner.Text()
			if strings.HasPrefix(text, "```") {
				code = !code
				continue
			}
			text = strings.TrimPrefix(text, "$ ")
			if !code || line == "" && !strings.HasPrefix(text, "gpipebench ") {
				continue
			}
			text, _, _ = strings.Cut(text, " # ")
			text, _, _ = strings.Cut(text, " > ")
			line += strings.TrimSpace(text)
			if begun, more := strings.CutSuffix(line, `\`); more {
				line = begun
				continue
			}
			args := strings.Fields(line)[1:]
			line = ""
			if name == "docs/howto.md" && (args[0] == "accelerators" || args[0] == "schedules" || strings.Contains(text, "--model cnn") || strings.Contains(text, "--schedule eager")) {
				continue
			}
			shown++
			cmd, rest, err := newRoot(io.Discard, io.Discard).Find(joinTied(args))
			if err == nil {
				// The values' files are the reader's.
				for i, a := range rest {
					if strings.HasSuffix(a, ".yaml") {
						rest[i] = "tpuv3"
					}
				}
				err = cmd.ParseFlags(rest)
			}
			testkit.Equal(t, err, nil, "%s:%d: gpipebench %s", name, n, strings.Join(args, " "))
		}
		testkit.NoError(t, scanner.Err())
	}
	if shown < 10 {
		t.Errorf("only %d commands found", shown)
	}
}
