//go:build linux

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gpipebench/gpipe/snapshot"
	"gpipebench/internal/testkit"
)

var survivors = []survivor{
	{"transformer-lm", "--layers 2 --dim 32 --ff 64 --heads 2 --seq 16 --batch 16 --groups 4 --steps 60 --optimizer adam --ema 0.9 --dropout 0.1 --eval-every 20", []string{
		"-m 1", "-k 2 -m 4", "-k 4 -m 2 --schedule 1f1b --checkpoint never", "--threads 2 --replicas 2 -m 1",
		"--replicas 4 -m 2 --zero 1", "-k 2 --replicas 2 -m 4 --zero 1 --schedule 1f1b", "-k 3 -m 3 --device emulated",
		"2 processes: --replicas 2 -m 1", "4 processes: --replicas 4 -m 2 --zero 1", "2 processes: -k 2 -m 4",
	}},
	{"resnet50", "--model resnet50 --width 4 --image 32 --train-images 48 --held-out 16 --batch 16 --groups 4 -m 2 --epochs 5 --optimizer rmsprop --ema 0.9 --lr-schedule exponential:0.9:1epochs", []string{
		"-k 1", "-k 3", "-k 2 --schedule 1f1b --checkpoint never", "--replicas 2", "--replicas 4 --zero 1", "-k 2 --replicas 2 --threads 2 --zero 1",
		"4 processes: -k 2 --replicas 2", "2 processes: --replicas 2 --zero 1",
	}},
	{"transformer", "--model transformer --layers 1 --dim 16 --ff 32 --heads 2 --seq 48 --languages 1 --pairs 200 --batch 16 --groups 4 --steps 40 --optimizer momentum --label-smoothing 0.1 --tied all", []string{
		"-m 1", "-k 2 -m 4", "--replicas 2 -m 2", "--replicas 4 -m 1 --zero 1", "-k 3 -m 2 --schedule 1f1b", "-k 2 --replicas 2 -m 1 --checkpoint never",
		"2 processes: -k 2 -m 2", "4 processes: --replicas 4 -m 1",
	}},
}

// sizes matches what of a way is not the cut of one pipeline: R and the number of processes.
var sizes = regexp.MustCompile(`[0-9] processes|--replicas [0-9]`)

// ordeal is how a training is killed and resumed.
type ordeal struct {
	survivor
	way, other  string        // in which it runs first, and is resumed
	every, keep int           // snapshots
	rows        int           // of its log, after which it is killed,
	more        time.Duration // so much later
	victim      int           // 0: the command; else one of the processes that it has started, if there are any
	full        bool          // the disk is full from the first snapshot on
}

func (o ordeal) String() string {
	return fmt.Sprintf("%s, %q (snapshots every %d, of which %d are kept, process %d killed %v after row %d, disk full: %v), then %q", o.name, o.way, o.every, o.keep, o.victim, o.more, o.rows, o.full, o.other)
}

// resized reports whether R or the number of processes changes.
func (o ordeal) resized() bool {
	return !slices.Equal(sizes.FindAllString(o.way, -1), sizes.FindAllString(o.other, -1))
}

// drawn draws an ordeal. Every second one changes R or the number of processes.
func drawn(random *rand.Rand, s survivor, rows int, resized bool) ordeal {
	o := ordeal{
		survivor: s, way: s.ways[random.IntN(len(s.ways))], every: 1 + random.IntN(5), keep: 1 + random.IntN(3),
		rows: random.IntN(rows), more: time.Duration(random.IntN(100)) * time.Millisecond,
		victim: random.IntN(5), full: random.IntN(4) == 0,
	}
	for o.other = o.way; o.other == o.way || resized && !o.resized(); {
		o.other = s.ways[random.IntN(len(s.ways))]
	}
	return o
}

// Trainings that are killed with -9 at random moments and resumed in another shape, drawn
// by a printed seed, end with the bits of those that were left alone, also if the disk was
// full. GPIPEBENCH_KILLS says how many are killed, GPIPEBENCH_KILL_SEED by which seed.
func TestKilledTrainings(t *testing.T) {
	testkit.CI(t)
	t.Parallel()
	kills, seed := 6, uint64(time.Now().UnixNano())
	if testkit.IsDeep() {
		kills = 100
	}
	for name, to := range map[string]func(n uint64){
		"GPIPEBENCH_KILLS": func(n uint64) { kills = int(n) }, "GPIPEBENCH_KILL_SEED": func(n uint64) { seed = n },
	} {
		if text := os.Getenv(name); text != "" {
			n := testkit.Must(strconv.ParseUint(text, 10, 64))(t, "%s=%s", name, text)
			to(n)
		}
	}
	t.Logf("seed %d (GPIPEBENCH_KILL_SEED=%d)", seed, seed)
	k := &killing{alone: map[string]leftAlone{}}
	for _, s := range survivors {
		log := filepath.Join(t.TempDir(), "log.csv")
		k.alone[s.name] = leftAlone{finished(t, command(t.TempDir(), s.line(s.ways[0], " --log "+log))), rowsIn(log)}
	}
	t.Run("kills", func(t *testing.T) {
		for i := range kills {
			if !testkit.InShard(i) {
				continue
			}
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				s := survivors[i%len(survivors)]
				random := rand.New(rand.NewPCG(seed, uint64(i)))
				for !k.endure(t, drawn(random, s, k.alone[s.name].rows, i/len(survivors)%2 == 0)) { // it has ended before it was killed
				}
			})
		}
	})
	t.Logf("%d trainings were killed, %d of them by one of their processes, %d with a full disk; %d went on from a snapshot, %d of these with another R or number of processes", k.killed, k.ranks, k.full, k.resumed, k.resized)
	if k.killed >= 100 && k.resized < 30 {
		t.Errorf("%d went on with another R or number of processes, want 30 of 100", k.resized)
	}
}

// leftAlone is how a training ends that is not killed.
type leftAlone struct {
	outcome
	rows int // of its log
}

// killing is what ordeals have in common, and counts them.
type killing struct {
	alone map[string]leftAlone // by the survivor's name

	mu                                    sync.Mutex
	killed, ranks, full, resumed, resized int
}

// endure kills and resumes a training. It is false if that had ended before.
func (k *killing) endure(t *testing.T, o ordeal) bool {
	temporary, log, dir := t.TempDir(), filepath.Join(t.TempDir(), "log.csv"), t.TempDir()
	disk := ""
	if o.full {
		if disk = dir; !mounted(t, disk, "size=48m") {
			o.full = false
		}
	}
	dir = filepath.Join(dir, "snapshots")
	flags := fmt.Sprintf(" --log %s --snapshot-dir %s --snapshot-every %d --snapshot-keep %d", log, dir, o.every, o.keep)
	r := start(t, command(temporary, o.line(o.way, flags)))
	reach := func(what string, is func() bool) { until(t, what, func() bool { return is() || r.over() }) }
	all := []int{r.cmd.Process.Pid}
	if n, _, several := strings.Cut(o.way, " processes: "); several {
		count, _ := strconv.Atoi(n)
		reach("all ranks", func() bool { all = append(all[:1], childrenOf(all[0])...); return len(all) > count })
	}
	if o.full {
		reach("a snapshot", func() bool { steps, err := snapshot.Steps(dir); return err == nil && len(steps) > 0 })
		fill(t, disk)
	}
	reach(fmt.Sprint("row ", o.rows), func() bool { return rowsIn(log) >= o.rows })
	select {
	case <-r.ended:
	case <-time.After(o.more): // any moment
	}
	victim := o.victim % len(all)
	if !r.over() {
		_ = syscall.Kill(all[victim], syscall.SIGKILL) // an error: it has ended
	}
	status, said := r.status(), r.said.String()
	allEnd(t, all)
	kept := noneHalf(t, dir)
	if o.full {
		if kept == 0 {
			t.Errorf("%v: a full disk has lost the snapshot that was there", o)
		}
		testkit.NoError(t, os.Remove(filepath.Join(disk, filler)))
	}
	switch {
	case status == 0 || o.full && strings.Contains(said, "snapshots failed"):
		return false
	case victim == 0 && status >= 0 || victim > 0 && (status != 1 || strings.Count("\n"+said, "\ngpipebench: ") != 1):
		t.Errorf("%v: status %d after\n%s", o, status, said)
	}
	got, want := finished(t, command(temporary, o.line(o.other, flags+" --resume"))), k.alone[o.name]
	testkit.Equal(t, got.said(), want.said(), "%v, from step %d", o, got.ResumedAt)
	testkit.Equal(t, rowsIn(log), want.rows, "%v: the log", o)
	onlySnapshots(t, dir)
	nothingLeft(t, temporary)
	k.mu.Lock()
	defer k.mu.Unlock()
	count := func(n *int, of bool) {
		if of {
			*n++
		}
	}
	count(&k.killed, true)
	count(&k.ranks, victim > 0)
	count(&k.full, o.full)
	count(&k.resumed, got.ResumedAt > 0)
	count(&k.resized, got.ResumedAt > 0 && o.resized())
	return true
}

// onlySnapshots fails if a directory of snapshots has something else.
func onlySnapshots(t *testing.T, dir string) {
	t.Helper()
	entries := testkit.Must(os.ReadDir(dir))(t)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "step-") {
			t.Errorf("%s is left", e.Name())
		}
	}
}

// rowsIn returns how many rows a log has.
func rowsIn(log string) int {
	text, _ := os.ReadFile(log) // an error: it is not there yet
	return max(0, bytes.Count(text, []byte("\n"))-1)
}
