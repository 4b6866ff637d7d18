//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gpipebench/gpipe/cluster"
	"gpipebench/internal/testkit"
)

// Processes that an engine has started find each other by their environment. Ranks of another version,
// or with another flag, seed, data, weights or schedule, are found before the first step: with one
// line, by rank 0, and the same status of both.
func TestRanksThatDiffer(t *testing.T) {
	testkit.CI(t)
	t.Parallel()
	// Files of the same name that differ in one byte in the middle, or by the seed.
	dirs := [2]string{t.TempDir(), t.TempDir()}
	for i, dir := range dirs {
		text := bytes.Repeat([]byte("all work and no play "), 1000)
		text[len(text)/2] += byte(i)
		testkit.NoError(t, os.WriteFile(filepath.Join(dir, "text"), text, 0o600))
		tasks := []string{"0F0,0B0\n", "0F0,0I0,0W0\n"}[i]
		testkit.NoError(t, os.WriteFile(filepath.Join(dir, "tasks.csv"), []byte(tasks), 0o600))
		finished(t, command(dir, fmt.Sprintf("train --json --steps=0 --save=%s --seed=%d", filepath.Join(dir, "weights"), 1+i), tiny...))
	}
	own := func(rank int, temporary string) []string {
		return []string{cluster.RankVariable + "=" + strconv.Itoa(rank), cluster.SizeVariable + "=2", cluster.AddressVariable + "=unix:" + temporary + "/run"}
	}
	torchrun := func(rank int, _ string) []string {
		return []string{"RANK=" + strconv.Itoa(rank), "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500"}
	}
	for _, c := range []struct {
		name   string
		flags  string    // of both
		others [2]string // of each
		dirs   [2]string
		engine string // of rank 1, if it is another
		starts func(rank int, temporary string) []string
		status int
		says   string
	}{
		{"nothing", "--load=weights", [2]string{}, [2]string{dirs[0], dirs[0]}, "", own, 0, ""},
		{"nothing, torchrun", "", [2]string{}, dirs, "", torchrun, 0, ""},
		{"version", "", [2]string{}, dirs, "another", own, 1, `another program than rank 0: "engine another`},
		{"flag", "", [2]string{"", "--clip-norm=2"}, dirs, "", own, 1, `another --clip-norm than rank 0: "2", rank 0 "1"`},
		{"seed, torchrun", "", [2]string{"--seed=7", "--seed=8"}, dirs, "", torchrun, 1, `another --seed than rank 0: "8", rank 0 "7"`},
		{"data", "--data=text:text", [2]string{}, dirs, "", own, 1, "another content of data or weights than rank 0: "},
		{"schedule", "--schedule=tasks.csv", [2]string{}, dirs, "", own, 1, "another content of the schedule's file than rank 0: "},
		{"weights", "--load=weights", [2]string{}, dirs, "", own, 1, "another content of data or weights than rank 0: "},
		// A wrong flag is every rank's, and rank 0 says so.
		{"nothing, a wrong flag", "-k 0", [2]string{}, dirs, "", torchrun, 2, "--partitions"},
		{"nothing, emulated", "--device emulated", [2]string{}, dirs, "", own, 2, "want host devices"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			temporary := t.TempDir()
			var ranks [2]*running
			var outs [2]bytes.Buffer
			for rank := range ranks {
				cmd := command(temporary, "train --json --steps=2 --replicas=2 -m=1 "+c.flags+" "+c.others[rank], tiny...)
				cmd.Dir, cmd.Stdout = c.dirs[rank], &outs[rank]
				cmd.Env = append(cmd.Env, c.starts(rank, temporary)...)
				if rank == 1 {
					cmd.Env = append(cmd.Env, asEngine+"="+c.engine)
				}
				ranks[rank] = start(t, cmd)
			}
			for _, r := range ranks {
				r.endsWith(c.status)
			}
			if whole := strings.Contains(outs[0].String(), `"weights_sha256"`); whole != (c.status == 0) || outs[1].Len() > 0 {
				t.Errorf("print %q and %q", &outs[0], &outs[1])
			}
			if text := ranks[1].said.String(); c.status > 0 && text != "" {
				t.Errorf("rank 1 says %q", text)
			}
			if c.status > 0 {
				if said := ranks[0].reason(); !strings.Contains(said, c.says) || c.status == 1 && !strings.HasPrefix(said, "gpipebench: rank 1 on ") {
					t.Errorf("rank 0 says %q, want %q", said, c.says)
				}
			}
			nothingLeft(t, temporary)
		})
	}
}
