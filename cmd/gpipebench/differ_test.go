//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"gpipebench/gpipe/cluster"
)

// Ranks of another version, or with another flag, seed, data, weights or schedule, are found before
// the first step: with one line, by rank 0, and status 1 of both.
func TestRanksThatDiffer(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program and starts processes")
	}
	// Files of the same name that differ in one byte in the middle, or by the seed.
	dirs := [2]string{t.TempDir(), t.TempDir()}
	for i, dir := range dirs {
		text := bytes.Repeat([]byte("all work and no play "), 1000)
		text[len(text)/2] += byte(i)
		if err := os.WriteFile(filepath.Join(dir, "text"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		tasks := []string{"0F0,0B0\n", "0F0,0I0,0W0\n"}[i]
		if err := os.WriteFile(filepath.Join(dir, "tasks.csv"), []byte(tasks), 0o600); err != nil {
			t.Fatal(err)
		}
		finished(t, command(t, dir, strings.Join(slices.Concat([]string{"train", "--json", "--steps=0", "--save=" + filepath.Join(dir, "weights"), "--seed=" + strconv.Itoa(1+i)}, tiny), " ")))
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name        string
		flags       string    // of both
		others      [2]string // of each
		dirs        [2]string
		executables [2]string
		says        string
	}{
		{"nothing", "--load=weights", [2]string{}, [2]string{dirs[0], dirs[0]}, [2]string{self, self}, ""},
		{"version", "", [2]string{}, dirs, [2]string{self, anotherVersion(t)}, `another program than rank 0: "engine `},
		{"flag", "", [2]string{"", "--clip-norm=2"}, dirs, [2]string{self, self}, `another --clip-norm than rank 0: "2", rank 0 "1"`},
		{"seed", "", [2]string{"--seed=7", "--seed=8"}, dirs, [2]string{self, self}, `another --seed than rank 0: "8", rank 0 "7"`},
		{"data", "--data=text:text", [2]string{}, dirs, [2]string{self, self}, "another content of data or weights than rank 0: "},
		{"schedule", "--schedule=tasks.csv", [2]string{}, dirs, [2]string{self, self}, "another content of the schedule's file than rank 0: "},
		{"weights", "--load=weights", [2]string{}, dirs, [2]string{self, self}, "another content of data or weights than rank 0: "},
	} {
		temporary := t.TempDir()
		var said [2]bytes.Buffer
		var cmds [2]*exec.Cmd
		var all sync.WaitGroup
		for rank := range cmds {
			cmd := command(t, temporary, strings.Join(slices.Concat(strings.Fields("train --json --steps=2 --replicas=2 -m=1"), tiny, []string{c.flags, c.others[rank]}), " "))
			cmd.Path, cmd.Dir, cmd.Stderr = c.executables[rank], c.dirs[rank], &said[rank]
			cmd.Env = append(cmd.Env, cluster.RankVariable+"="+strconv.Itoa(rank), cluster.SizeVariable+"=2", cluster.AddressVariable+"=unix:"+temporary+"/run")
			cmds[rank] = cmd
			all.Go(func() { _ = cmd.Run() }) // its state is looked at
		}
		all.Wait()
		for rank, cmd := range cmds {
			text, status := said[rank].String(), cmd.ProcessState.ExitCode()
			switch {
			case c.says == "":
				if status != 0 {
					t.Errorf("%s differs: rank %d has status %d and says %q", c.name, rank, status, text)
				}
			case status != 1, rank == 0 && (!strings.HasPrefix(text, "gpipebench: rank 1 on ") || !strings.Contains(text, c.says) || strings.Count(text, "\n") != 1), rank == 1 && text != "":
				t.Errorf("%s differs: rank %d has status %d and says %q, want %q", c.name, rank, status, text, c.says)
			}
		}
		nothingLeft(t, temporary)
	}
}

// anotherVersion builds the program with another engine: a comment more in a file that is
// part of it.
func anotherVersion(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	file, err := filepath.Abs("../../gpipe/accelerators/a100.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed, overlay, program := filepath.Join(dir, "a100.yaml"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "gpipebench")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{changed: append(text, "# another version\n"...), overlay: replace} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-overlay", overlay, "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}
