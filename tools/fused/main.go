// Fused fails where a compiler fuses x*y + z into one instruction, which rounds otherwise than two:
// in the packages that are its arguments, and those of their module that they import. It compiles
// them for arm64, which fuses as riscv64, ppc64le, s390x and loong64 do, and for GOAMD64=v3.
//
// Lines that say math.FMA mean it, and of a product that is exact (of two float32s in float64) fusing
// changes nothing: such a line has a comment that begins with exact.
package main

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// free are files that decide no bits of a training, plan or table: pictures, and what only tests use.
var free = regexp.MustCompile(`^gpipe/timeline/draw/|(test|oracle)/[^/]+$`)

var targets = []string{"GOARCH=arm64", "GOAMD64=v3"}

func main() {
	log.SetFlags(0)
	found := 0
	for _, target := range targets {
		lines, err := fused(".", target, os.Args[1:]...)
		if err != nil {
			log.Fatal("fused: ", err)
		}
		for _, line := range lines {
			fmt.Println(target, line)
		}
		found += len(lines)
	}
	if found > 0 {
		log.Fatalf("fused: %d lines whose bits depend on the processor: want float64(x*y) + z, or math.FMA(x, y, z) where fusing is meant", found)
	}
}

// instruction is one that fuses, in what the compiler prints: its file and line, and its name.
var instruction = regexp.MustCompile(`\(([^()]+):(\d+)\)\t(FN?M(?:ADD|SUB)[SD]|VFN?M(?:ADD|SUB)\d+S[SD])\t`)

// fused lists the lines of a module's packages, in a directory, that are fused for a target.
func fused(dir, target string, packages ...string) ([]string, error) {
	c := exec.Command("go", append([]string{"build", "-gcflags=./...=-S"}, packages...)...)
	c.Dir, c.Env = dir, append(os.Environ(), "CGO_ENABLED=0", target)
	text, err := c.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", target, err, text[max(0, len(text)-1000):])
	}
	if !bytes.Contains(text, []byte(" STEXT ")) {
		return nil, fmt.Errorf("%s: the compiler printed no code", target)
	}
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, m := range instruction.FindAllSubmatch(text, -1) {
		file, name := string(m[1]), string(m[3])
		number, _ := strconv.Atoi(string(m[2]))
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		said := strings.TrimSpace(strings.Split(string(source), "\n")[number-1])
		file, err = filepath.Rel(root, file)
		if err != nil {
			return nil, err
		}
		if strings.Contains(said, "math.FMA(") || strings.Contains(said, "// exact") || free.MatchString(filepath.ToSlash(file)) {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s:%d: %s: %s", file, number, name, said))
	}
	slices.Sort(lines)
	return slices.Compact(lines), nil
}
