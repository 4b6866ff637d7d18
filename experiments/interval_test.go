package experiments

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// There is an interval from the least number of values on, and a warning below.
func TestLeastForInterval(t *testing.T) {
	least := leastForInterval(0.95)
	for n := 1; n < 12; n++ {
		values := make([]float64, n)
		_, _, ok := interval(values, 0.95)
		few := fewRoundsNote(n)
		if ok != (n >= least) || ok != (len(few) == 0) || ok != (bracketed(values, FormatSeconds) != "-") {
			t.Errorf("%d values: interval %v, least %d, notes %q, %q", n, ok, least, few, bracketed(values, FormatSeconds))
		}
		if !ok && !strings.Contains(few[0], fmt.Sprintf("n = %d rounds", n)) {
			t.Errorf("%d rounds: %q", n, few)
		}
		if seeds := fewSeedsNote(n); (len(seeds) == 0) != (n >= least) || len(seeds) > 0 && !strings.Contains(seeds[0], fmt.Sprintf("n = %d seed", n)) {
			t.Errorf("%d seeds: %q", n, seeds)
		}
		if runs := fewRunsNote(n); (len(runs) == 0) != (n >= least) {
			t.Errorf("%d runs: %q", n, runs)
		}
	}
	if got := bracketed([]float64{3, 1, 2, 6, 5, 4}, func(x float64) string { return fmt.Sprint(x) }); got != "[1, 6]" {
		t.Errorf("%s, want [1, 6]", got)
	}
}

// Where all or none of n trials succeed the interval has a closed form; one of
// ten is in printed tables.
func TestRateInterval(t *testing.T) {
	for n := 1; n < 10; n++ {
		end := 1 - math.Pow(0.025, 1/float64(n))
		if lo, hi := rateInterval(0, n); lo != 0 || !near(hi, end, 1e-9) {
			t.Errorf("0 of %d: [%v, %v], want [0, %v]", n, lo, hi, end)
		}
		if lo, hi := rateInterval(n, n); !near(lo, 1-end, 1e-9) || hi != 1 {
			t.Errorf("%d of %d: [%v, %v], want [%v, 1]", n, n, lo, hi, 1-end)
		}
	}
	if lo, hi := rateInterval(1, 10); !near(lo, 0.0025, 1e-4) || !near(hi, 0.4450, 1e-4) {
		t.Errorf("1 of 10: [%v, %v], want [0.0025, 0.4450]", lo, hi)
	}
}

// Each table of an experiment says which seeds went into it, and that rounds are
// too few if they are; with enough the breakdown's shares have intervals.
func TestTablesSaySeedsAndNumbers(t *testing.T) {
	for _, rounds := range []int{2, 7} {
		b := loaded[*breakdown](t, loadBreakdown)
		profile := b.spec.Profiles["smoke"]
		profile.Rounds = rounds
		b.spec.Profiles["smoke"] = profile
		log := NewLog(b.Key("smoke"))
		rng := rand.New(rand.NewPCG(7, uint64(rounds)))
		for i := range b.rounds(profile).runs {
			r := b.rounds(profile)
			r.runs = r.runs[i : i+1]
			for round := range rounds { // rounds that differ
				one := *r
				one.count = 1
				own := NewLog(log.Key)
				fillRounds(t, own, &one, 1<<16, func(*timedRun, int) float64 { return 0.5 + rng.Float64() })
				if err := log.Add(r.runs[0].sample(round, 0), 3, own.samples[r.runs[0].sample(0, 0)].Data); err != nil {
					t.Fatal(err)
				}
			}
		}
		report, err := reportOf(b, log, nil)
		if err != nil {
			t.Fatal(err)
		}
		enough := rounds >= leastForInterval(0.95)
		for _, table := range report.Tables {
			notes := strings.Join(table.Notes, "\n")
			if !strings.Contains(notes, "Seeds: 3.") || enough == strings.Contains(notes, fmt.Sprintf("Warning: n = %d rounds", rounds)) {
				t.Errorf("%s, %d rounds: notes %q", table.ID, rounds, notes)
			}
			with := 0
			for _, row := range table.Rows {
				for i, c := range table.Columns {
					if strings.HasPrefix(c.Name, "95%") && strings.HasPrefix(row[i], "[") {
						with++
					}
				}
			}
			if enough != (with >= len(table.Rows)) || !enough && with > 0 {
				t.Errorf("%s, %d rounds: %d intervals in %d rows", table.ID, rounds, with, len(table.Rows))
			}
		}
		if page := provenanceNote(log); strings.Contains(page, "processes") {
			t.Errorf("of one process: %q", page)
		}
	}
}

func TestSeedsNote(t *testing.T) {
	log := NewLog(Key{Experiment: "e"})
	if got := seedsNote(log); !strings.Contains(got, "none") {
		t.Error(got)
	}
	for i, seed := range []uint64{12, 3, 0, 12} {
		if err := log.Add(fmt.Sprint(i), seed, i); err != nil {
			t.Fatal(err)
		}
	}
	if got := seedsNote(log); got != "Seeds: 3, 12." {
		t.Error(got)
	}
	// 0 is none, so that no spec may have it.
	for _, c := range []struct{ file, old, seed, want string }{
		{"table2.yaml", "\nseed: 1\n", "\nseed: 0\n", "table2.yaml:6:7: seed: \"0\": want a whole number of 1 or more"},
		{"delayed_reduction.yaml", "seeds: [1, 2]", "seeds: [1, 0]", "profiles.smoke.seeds."},
		{"stability.yaml", "seeds: [1]", "seeds: [0]", "profiles.smoke.seeds."},
	} {
		text, err := specFiles.ReadFile(c.file)
		if err != nil || bytes.Count(text, []byte(c.old)) != 1 {
			t.Fatalf("%s: %v", c.file, err)
		}
		id := strings.ReplaceAll(strings.TrimSuffix(c.file, ".yaml"), "_", "-")
		_, err = Load(id, SpecFile{c.file, id, bytes.Replace(text, []byte(c.old), []byte(c.seed), 1)})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.file, err, c.want)
		}
	}
}

// Of several processes the note has the first time, the last, and every commit.
// Samples of another engine count, and reproduce says so.
func TestEngineNote(t *testing.T) {
	for engine, want := range map[string]string{"this": "", "": "not recorded", "that": "another engine (that, this one is this)"} {
		log := NewLog(Key{})
		log.put(&record{Session: "s", Provenance: &Provenance{Engine: engine}})
		log.put(&record{Session: "s", Sample: "a"})
		if got := engineNote(log, "this"); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("engine %q: %q, want %q", engine, got, want)
		}
	}
}

func TestProvenanceOfProcesses(t *testing.T) {
	log := NewLog(Key{Experiment: "e", Profile: "smoke"})
	for i, p := range []Provenance{{Time: "2026-01-02", Commit: "b"}, {Time: "2026-01-03", Commit: "c"}, {Time: "2026-01-01", Commit: "b"}} {
		id := fmt.Sprint(i)
		log.put(&record{Session: id, Provenance: &p})
		log.put(&record{Session: id, Sample: "sample " + id, Data: []byte("1")})
	}
	if got := provenanceNote(log); !strings.HasPrefix(got, "Measured 2026-01-01 to 2026-01-03 by 3 processes, commit b, c, profile smoke") {
		t.Error(got)
	}
	if !slices.IsSortedFunc(log.measuring(), func(a, b Provenance) int { return strings.Compare(a.Time, b.Time) }) {
		t.Error("not in the order of time")
	}
}
