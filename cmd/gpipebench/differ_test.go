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

// Ranks of another version, or with another flag, seed, data, weights or schedule, are found before
// the first step: with one line, by rank 0, and status 1 of both.
func TestRanksThatDiffer(t *testing.T) {
	testkit.CI(t)
	t.Parallel()
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
		finished(t, command(dir, fmt.Sprintf("train --json --steps=0 --save=%s --seed=%d", filepath.Join(dir, "weights"), 1+i), tiny...))
	}
	for _, c := range []struct {
		name   string
		flags  string    // of both
		others [2]string // of each
		dirs   [2]string
		engine string // of rank 1, if it is another
		says   string
	}{
		{"nothing", "--load=weights", [2]string{}, [2]string{dirs[0], dirs[0]}, "", ""},
		{"version", "", [2]string{}, dirs, "another", `another program than rank 0: "engine another`},
		{"flag", "", [2]string{"", "--clip-norm=2"}, dirs, "", `another --clip-norm than rank 0: "2", rank 0 "1"`},
		{"seed", "", [2]string{"--seed=7", "--seed=8"}, dirs, "", `another --seed than rank 0: "8", rank 0 "7"`},
		{"data", "--data=text:text", [2]string{}, dirs, "", "another content of data or weights than rank 0: "},
		{"schedule", "--schedule=tasks.csv", [2]string{}, dirs, "", "another content of the schedule's file than rank 0: "},
		{"weights", "--load=weights", [2]string{}, dirs, "", "another content of data or weights than rank 0: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			temporary := t.TempDir()
			var ranks [2]*running
			for rank := range ranks {
				cmd := command(temporary, "train --json --steps=2 --replicas=2 -m=1 "+c.flags+" "+c.others[rank], tiny...)
				cmd.Dir = c.dirs[rank]
				cmd.Env = append(cmd.Env, cluster.RankVariable+"="+strconv.Itoa(rank), cluster.SizeVariable+"=2", cluster.AddressVariable+"=unix:"+temporary+"/run")
				if rank == 1 {
					cmd.Env = append(cmd.Env, asEngine+"="+c.engine)
				}
				ranks[rank] = start(t, cmd)
			}
			for rank, r := range ranks {
				status := r.status()
				text := r.said.String()
				switch {
				case c.says == "":
					if status != 0 {
						t.Errorf("rank %d has status %d and says %q", rank, status, text)
					}
				case status != 1, rank == 0 && (!strings.HasPrefix(text, "gpipebench: rank 1 on ") || !strings.Contains(text, c.says) || strings.Count(text, "\n") != 1), rank == 1 && text != "":
					t.Errorf("rank %d has status %d and says %q, want %q", rank, status, text, c.says)
				}
			}
			nothingLeft(t, temporary)
		})
	}
}
