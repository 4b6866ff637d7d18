package experiments

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"gpipebench/internal/failure"
	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/train"
)

// scalars are what a value in a spec is replaced with.
var scalars = []string{
	"0", "-1", "1", "2", "3", "5", "7", "1.9", "0.5", "1e30", "99999999999999999999", "16777216", ".nan", ".inf", "~", "true", "[]", "{}", "[1]", "{a: 1}",
	`""`, "x", "../../../evil/x", "/dev/null", `"a\nb"`, `"a\x1b[31m"`, `"a|b"`, "<script>", "naive", "1f1b", "fine", "both", "host", "emulated", "transformer", "resnet50", "adam", "time", "GB", "1s",
}

// mutant changes a spec's text in a few places, as a user may who tries
// something: values, entries and fields that are other, missing, there twice or
// too many.
func mutant(text []byte, random *rand.Rand) string {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		panic(err)
	}
	for range 1 + random.IntN(2) {
		var places []*yaml.Node
		var walk func(n *yaml.Node)
		walk = func(n *yaml.Node) {
			n.LineComment, n.HeadComment, n.FootComment = "", "", ""
			places = append(places, n)
			for i, c := range n.Content {
				if n.Kind != yaml.MappingNode || i%2 == 1 {
					walk(c)
				}
			}
		}
		walk(root.Content[0])
		change(places[random.IntN(len(places))], random)
	}
	out, err := yaml.Marshal(&root)
	if err != nil {
		panic(err)
	}
	return string(out)
}

func change(n *yaml.Node, random *rand.Rand) {
	pick := func(n int) int { return random.IntN(max(n, 1)) }
	switch {
	case len(n.Content) == 0 || random.IntN(8) == 0:
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(scalars[pick(len(scalars))]), &doc); err != nil {
			panic(err)
		}
		*n = *doc.Content[0]
	case n.Kind == yaml.SequenceNode:
		i := pick(len(n.Content))
		switch pick(5) {
		case 0, 1:
			n.Content = append(n.Content[:i:i], n.Content[i+1:]...)
		case 2:
			n.Content = append(n.Content, n.Content[i])
		case 3:
			n.Content = nil
		case 4:
			j := pick(len(n.Content))
			n.Content[i], n.Content[j] = n.Content[j], n.Content[i]
		}
	default:
		i := 2 * pick(len(n.Content)/2)
		switch pick(4) {
		case 0, 1:
			n.Content = append(n.Content[:i:i], n.Content[i+2:]...)
		case 2:
			n.Content = append(n.Content, n.Content[i], n.Content[i+1])
		case 3:
			key := *n.Content[i]
			key.Value += "x"
			n.Content[i] = &key
		}
	}
}

var refusal = regexp.MustCompile(`^x\.yaml:\d+:\d+: [^\n]+$`)

// reference is an experiment's log in the repository, once read.
var references = func() func(id string) *records.Log {
	var one sync.Mutex
	logs := map[string]*records.Log{}
	return func(id string) *records.Log {
		one.Lock()
		defer one.Unlock()
		if logs[id] == nil {
			l, err := records.Load(filepath.Join("../results/reference/records", id+".jsonl"), id)
			if errors.Is(err, fs.ErrNotExist) {
				l = records.New(records.Key{Experiment: id, Profile: "quick"}) // not measured yet
			} else if err != nil {
				panic(err)
			}
			logs[id] = l
		}
		return logs[id]
	}
}()

// traced are the models of mutants, each of which is traced once: most belong to
// the program's specs.
var traced = map[train.Model]int{}

// tryMutant loads a spec and, if it is taken, reports from a log without samples
// and, if asked to, from the reference's, and measures for some time; what is complete
// by then is reported as well. Nothing may panic, and every error is one line.
func tryMutant(t *testing.T, id, text string, report bool, measured time.Duration) {
	stage := "loading"
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("%s: %v\n%s\n%s", stage, p, debug.Stack(), text)
		}
	}()
	e, err := load(id, traced, lab.SpecFile{Name: "x.yaml", Experiment: id, Text: []byte(text)})
	if err != nil {
		if !refusal.MatchString(err.Error()) {
			t.Errorf("refused with %q:\n%s", err, text)
		}
		return
	}
	clear := func(err error) {
		if err != nil && (strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "runtime error") || strings.Contains(err.Error(), "NaN")) {
			t.Errorf("%s: %q\n%s", stage, err, text)
		}
	}
	stage = "reporting nothing"
	if _, err = e.Report(records.New(e.Key("smoke")), nil); err == nil {
		t.Errorf("a report of nothing\n%s", text)
	}
	clear(err)
	if report {
		stage = "reporting the reference"
		_, err = e.Report(references(id), references(id))
		clear(err)
	}
	if measured == 0 {
		return
	}
	stage = "measuring"
	ctx, cancel := context.WithTimeout(t.Context(), measured)
	defer cancel()
	log := records.New(e.Key("smoke"))
	err = e.Measure(ctx, log, progress.Silent{})
	clear(err)
	if ctx.Err() != nil {
		return
	}
	var usage *failure.UsageError
	if errors.As(err, &usage) {
		t.Errorf("measuring: %v: not refused when it was loaded\n%s", err, text)
	}
	if err == nil {
		stage = "reporting"
		_, err := e.Report(log, references(id))
		testkit.Equal(t, err, nil, "reporting, %s", text)
	}
}

// singles are a spec's text without each of its fields and entries in turn, and
// with each of its lists' entries first.
func singles(text []byte) (all []string) {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		panic(err)
	}
	keep := func(n *yaml.Node, content []*yaml.Node) {
		was := n.Content
		n.Content = content
		out, err := yaml.Marshal(&root)
		if err != nil {
			panic(err)
		}
		all, n.Content = append(all, string(out)), was
	}
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		width := 1
		if n.Kind == yaml.MappingNode {
			width = 2
		}
		for i := 0; i+width <= len(n.Content); i += width {
			rest := slices.Concat(n.Content[:i], n.Content[i+width:])
			keep(n, rest)
			if width == 1 && i > 0 {
				keep(n, append([]*yaml.Node{n.Content[i]}, rest...))
			}
			walk(n.Content[i+width-1])
		}
	}
	walk(root.Content[0])
	return all
}

// reported is how many of a spec's accepted variants TestSpecsWithoutOneThing has
// reported: each draws plots. 1000 are all of them, in ten minutes.
var reported = flag.Int("reported-specs", 2, "reports of every experiment in TestSpecsWithoutOneThing")

// mutated are the experiments whose specs are changed in hundreds of ways: one of each kind,
// and in make deep all.
func mutated() (list []lab.Definition) {
	for i, d := range List() {
		ofKind := slices.Contains([]string{"translation", "figure3", "replicas-modelled", "spatial-bits"}, d.ID) // trained, timed, cells, same bits
		if testkit.IsDeep() && testkit.InShard(i) || !testkit.IsDeep() && ofKind {
			list = append(list, d)
		}
	}
	return list
}

// Every field and entry of a spec is left out once: the rest is refused, or
// reported from what the whole one measured.
func TestSpecsWithoutOneThing(t *testing.T) {
	taken, refused := 0, 0
	for _, d := range mutated() {
		var variants []lab.Experiment
		var texts []string
		for i, text := range singles([]byte(d.Spec())) {
			if testing.Short() && i%5 != 0 {
				continue
			}
			if loaded, err := d.Load(lab.SpecFile{Name: "x.yaml", Experiment: d.ID, Text: []byte(text)}); err != nil {
				refused++
				if !refusal.MatchString(err.Error()) {
					t.Errorf("refused with %q:\n%s", err, text)
				}
			} else {
				taken++
				variants, texts = append(variants, loaded), append(texts, text)
			}
		}
		step := max(1, len(variants) / *reported)
		if testing.Short() {
			step = len(variants) // the first
		}
		for i := 0; i < len(variants); i += step {
			reportMutant(t, variants[i], texts[i])
		}
	}
	t.Logf("%d taken, %d refused", taken, refused)
}

// reportMutant reports from the samples of the whole spec.
func reportMutant(t *testing.T, e lab.Experiment, text string) {
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("%s: %v\n%s\n%s", e.ID(), p, debug.Stack(), text)
		}
	}()
	if _, err := e.Report(references(e.ID()), nil); err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: %q\n%s", e.ID(), err, text)
	}
}

// Specs of the program are changed at random. What is accepted ends in tables
// or in one clear line.
func FuzzSpecMutants(f *testing.F) {
	list := List()
	for _, d := range mutated() {
		i := slices.IndexFunc(list, func(of lab.Definition) bool { return of.ID == d.ID })
		seeds := uint64(8)
		if testing.Short() {
			seeds = 2
		}
		for seed := range seeds {
			f.Add(uint8(i), seed)
		}
	}
	// A fuzzer runs all seeds before it begins, instrumented, and is to load thousands.
	reports, measures := uint64(1), uint64(8)
	if flag.Lookup("test.fuzz").Value.String() != "" {
		reports, measures = 8, 32
	}
	f.Fuzz(func(t *testing.T, which uint8, seed uint64) {
		i := int(which) % len(list)
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		text := mutant([]byte(list[i].Spec()), random)
		var measured time.Duration
		if seed%measures == 0 {
			measured = 100 * time.Millisecond
		}
		tryMutant(t, list[i].ID, text, seed%reports == 0, measured)
	})
}
