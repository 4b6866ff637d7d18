package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

const generated = "../../neon_arm64.s"

// tool returns LLVM's program, whose Debian packages have a version in their names.
func tool(t *testing.T, name string) string {
	t.Helper()
	for _, suffix := range []string{"-19", ""} {
		if path, err := exec.LookPath(name + suffix); err == nil {
			return path
		}
	}
	t.Skipf("%s is missing (Debian: llvm-19)", name)
	return ""
}

func run(t *testing.T, input, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Stdin = strings.NewReader(input)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, stderr.String())
	}
	return out.String()
}

func source(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(generated)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every word is the encoding of the instruction in its comment.
func TestEncodings(t *testing.T) {
	mc := tool(t, "llvm-mc")
	words := regexp.MustCompile(`WORD \$0x([0-9a-f]{8}) // (.*)`).FindAllStringSubmatch(source(t), -1)
	seen, want, text := map[string]bool{}, []string{}, strings.Builder{}
	for _, w := range words {
		if !seen[w[0]] {
			seen[w[0]] = true
			want = append(want, w[1])
			fmt.Fprintln(&text, w[2])
		}
	}
	out := run(t, text.String(), mc, "-triple=aarch64", "-mattr=+neon", "-show-encoding")
	got := regexp.MustCompile(`encoding: \[0x(..),0x(..),0x(..),0x(..)\]`).FindAllStringSubmatch(out, -1)
	if len(got) != len(want) || len(want) < 100 {
		t.Fatalf("%d encodings of %d instructions", len(got), len(want))
	}
	lines := strings.Split(text.String(), "\n")
	for i, g := range got {
		if g := g[4] + g[3] + g[2] + g[1]; g != want[i] {
			t.Errorf("%s is 0x%s, not 0x%s", lines[i], g, want[i])
		}
	}
}

// By LLVM's models of two processors, the innermost loop of Gemm's largest tile takes at most 1/0.85 of
// the time of as many multiply-adds that wait for nothing.
func TestGemmLoopKeepsUnitsBusy(t *testing.T) {
	mca := tool(t, "llvm-mca")
	body := gemmLoop(t)
	var free strings.Builder
	const chains = 24
	for d := range chains {
		fmt.Fprintf(&free, "fmla v%d.4s, v30.4s, v31.s[0]\n", d)
	}
	for _, cpu := range []string{"apple-m1", "neoverse-v1"} {
		cycles := func(code string) (n float64) {
			out := run(t, code, mca, "-mtriple=aarch64", "-mcpu="+cpu, "-iterations=1000")
			fmt.Sscan(regexp.MustCompile(`Total Cycles: +(\d+)`).FindStringSubmatch(out)[1], &n)
			return n / 1000
		}
		adds := strings.Count(body, "fmla")
		least, all := cycles(free.String())/chains*float64(adds), cycles(body)
		t.Logf("%s: %d multiply-adds take %.2f cycles, the loop %.2f: %.1f%%", cpu, adds, least, all, 100*least/all)
		if least/all < 0.85 {
			t.Errorf("%s: %.1f%% of the throughput of multiply-adds", cpu, 100*least/all)
		}
	}
}

// gemmLoop returns the innermost loop with most multiply-adds in LLVM's syntax.
func gemmLoop(t *testing.T) string {
	t.Helper()
	text := source(t)
	text = text[strings.Index(text, "TEXT ·gemmPanelsNEON"):]
	text = text[:strings.Index(text[1:], "TEXT ")]
	best, most := "", 0
	for _, block := range strings.Split(text, "\n\nloop") {
		_, block, _ = strings.Cut(block, "\n")
		block, _, ended := strings.Cut(block, "\tBNE loop")
		if n := strings.Count(block, "// fmla"); ended && n > most {
			best, most = block, n
		}
	}
	best = regexp.MustCompile(`WORD \S+ // (.*)`).ReplaceAllString(best, "$1")
	best = regexp.MustCompile(`ADD R(\d+), R(\d+), R(\d+)`).ReplaceAllString(best, "add x$3, x$2, x$1")
	best = regexp.MustCompile(`SUBS \$(\d+), R(\d+), R(\d+)`).ReplaceAllString(best, "subs x$3, x$2, #$1")
	return best + "\tb.ne #0\n"
}
