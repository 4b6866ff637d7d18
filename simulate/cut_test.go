package simulate

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gpipebench/internal/testkit"
)

// eachCut calls f with every way to cut layers into stages, in lexicographical order.
func eachCut(layers, stages int, f func(sizes []int)) {
	var grow func(sizes []int, left int)
	grow = func(sizes []int, left int) {
		if len(sizes) == stages-1 {
			f(append(slices.Clone(sizes), left))
			return
		}
		for n := 1; left-n >= stages-1-len(sizes); n++ {
			grow(append(sizes, n), left-n)
		}
	}
	grow(nil, layers)
}

// Of 1,000 random files of 12 layers, min-max and min-variance find what a search of all cuts finds,
// by time and by bytes, and the cut within a limit is the fastest that fits.
func TestCutAgainstAllCuts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "layers.csv")
	random := rand.New(rand.NewPCG(1, 2))
	const layers = 12
	for n := range 1000 {
		k := 1 + random.IntN(layers)
		cost := map[string][]int{"time": make([]int, layers), "bytes": make([]int, layers)}
		text := "bytes,name,f,w,b\n"
		for i := range layers {
			f, b, w, bytes := random.IntN(9), random.IntN(9), random.IntN(9), random.IntN(1000)
			cost["time"][i], cost["bytes"][i] = f+b+w, bytes
			text += fmt.Sprintf("%d, layer %d, %d, %d, %d\n", bytes, i, f, w, b)
		}
		testkit.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		limit := slices.Max(cost["bytes"]) + random.IntN(3000)
		sums := func(of []int, sizes []int) (all []int) {
			for _, n := range sizes {
				sum := 0
				for _, c := range of[:n] {
					sum += c
				}
				all, of = append(all, sum), of[n:]
			}
			return all
		}
		want := map[string][]int{}
		least := map[string]int{}
		take := func(way string, value int, sizes []int) {
			if was, ok := least[way]; !ok || value < was {
				least[way], want[way] = value, sizes
			}
		}
		eachCut(layers, k, func(sizes []int) {
			for by, of := range cost {
				squares := 0
				for _, s := range sums(of, sizes) {
					squares += s * s
				}
				take("min-max by "+by, slices.Max(sums(of, sizes)), sizes)
				take("min-variance by "+by, squares, sizes)
			}
			if slices.Max(sums(cost["bytes"], sizes)) <= limit {
				take("min-max within the limit by time", slices.Max(sums(cost["time"], sizes)), sizes)
			}
		})
		c := Cutting{Costs: file, K: k, Limit: int64(limit)}
		r, err := c.Run()
		fastest := want["min-max within the limit by time"]
		if fastest == nil {
			testkit.Fails(t, err, "no cut of 12 layers")
			continue
		}
		testkit.NoError(t, err, "file %d", n)
		if got, want := int(r.Best.Slowest), slices.Max(sums(cost["time"], fastest)); got != want || !r.Best.Fits {
			t.Fatalf("file %d: the best cut's slowest stage takes %d, want %d", n, got, want)
		}
		for _, w := range r.Ways {
			if sizes := want[w.Rule+" by "+w.By]; sizes != nil && !slices.Equal(sizes, w.Sizes) {
				t.Fatalf("file %d, K = %d, %s by %s: %v, want %v of\n%s", n, k, w.Rule, w.By, w.Sizes, sizes, text)
			}
			if slowest := slices.Max(sums(cost["time"], w.Sizes)); slowest != int(w.Slowest) {
				t.Fatalf("file %d: %v takes %v, want %d", n, w.Sizes, w.Slowest, slowest)
			}
		}
	}
}

// Sizes that are all 0 are no reason to cut, and times that are all 0 leave none.
func TestCutByZeros(t *testing.T) {
	file := filepath.Join(t.TempDir(), "layers.csv")
	c := Cutting{Costs: file, K: 2, Limit: 1}
	testkit.NoError(t, os.WriteFile(file, []byte("name,f,bytes\na,1,0\nb,2,0\nc,3,0\n"), 0o600))
	for _, w := range testkit.Must(c.Run())(t).Ways {
		testkit.Equal(t, w.By, "time", w.Rule)
	}
	testkit.NoError(t, os.WriteFile(file, []byte("name,f,bytes\na,0,1\nb,0,2\n"), 0o600))
	testkit.Refused(c.Run())(t, "layers.csv: all of f, b and w are 0: want a layer that takes time")
}

// What is wrong with a profile is said with line and column.
func TestProfileRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "layers.csv")
	for text, want := range map[string]string{
		"":                          "1:1: empty",
		"name,b\na,1\n":             "1:1: no column f",
		"name,f,time\na,1,2\n":      "1:8: column \"time\"",
		"name,f,f\na,1,2\n":         "1:8: column \"f\"",
		"name,f\n":                  "2:1: no rows",
		"name,f\na,1\nb\n":          "3:1: 1 cells: want 2",
		"name,f\na,1\nb, -1\n":      "3:4: f \"-1\": want a number from 0",
		"name,f,bytes\na,1,NaN\n":   "2:5: bytes \"NaN\"",
		"name,f\n\"a\"x,1\n":        "2:",
		"name,f,bytes\na,1,1e19\n":  "2:5: bytes \"1e19\": want a number from 0 to 1.1e+15",
		"name,f\na,1\n\n\nb,what\n": "5:3: f \"what\"",
	} {
		testkit.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		testkit.Refused(ReadProfile(file))(t, file+":"+want)
	}
}

// A cut's stages are what a schedule's times may be, and come to the slowest stage's time.
func TestScheduleOfAProfile(t *testing.T) {
	dir := t.TempDir()
	layers, stages := filepath.Join(dir, "layers.csv"), filepath.Join(dir, "stages.csv")
	testkit.NoError(t, os.WriteFile(layers, []byte("name,f,b,w\nin,1,1,1\nmid,2,2,1\nmid2,2,2,1\nout,4,3,2\n"), 0o600))
	cuts := testkit.Must(Cutting{Costs: layers, K: 2}.Run())(t)
	f := testkit.Must(os.Create(stages))(t)
	testkit.NoError(t, cuts.Stages.Write(f))
	f.Close()
	if p, err := ReadProfile(layers); err != nil || p.Times[3].F != 4 || p.Times[3].I != 3 || p.Times[3].W != 2 {
		t.Fatalf("%+v, %v", p, err)
	}
	if p, err := ReadProfile(stages); err != nil || len(p.Times) != 2 || p.Times[1].F != 4 || p.Times[1].I != 3 || p.Times[1].W != 2 || p.Names[0] != "in to mid2" {
		t.Fatalf("%+v, %v", p, err)
	}
	times := testkit.Must(ParseTaskTimes("comm=0," + stages))(t)
	testkit.Equal(t, times.File, stages)
	s := Scheduling{Schedule: "1f1b", K: 2, M: 50, Times: times}
	r := testkit.Must(s.Run())(t)
	// In, mid and mid2 take 13 ms, out 9: the slower stage never waits once it has begun.
	if got := r.Devices[0].Busy; got != 50*13 || r.Devices[1].Busy != 50*9 || r.Makespan < got || r.Makespan > got+10 || r.Devices[1].Idle.Imbalance == 0 {
		t.Errorf("busy %v of %v, idle %+v", got, r.Makespan, r.Devices[1].Idle)
	}
	s.K = 4
	testkit.Refused(s.Run())(t, "has 2 rows, and the schedule 4 stages on 4 devices")
}
