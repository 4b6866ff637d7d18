package experiments

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Experiment is one of the suite: it measures into a log, and reports from one.
type Experiment interface {
	ID() string
	Title() string
	// Expected is how long measuring takes on two cores of a few years ago.
	Expected(profile string) time.Duration
	// Key is that of the samples of a profile on this machine.
	Key(profile string) Key
	// Measure adds the samples that the log lacks.
	Measure(ctx context.Context, log *Log, p Progress) error
	// Report computes what is shown from a complete log. A reference, if there
	// is one, is shown beside.
	Report(log, reference *Log) (*Report, error)
}

// Report is what an experiment has to show.
type Report struct {
	Tables []*Table
	Files  []File // beside the tables
	// Verdict is nil unless the experiment has found something that must not be.
	Verdict error
}

// File is a file of a report.
type File struct {
	Name string
	Text string
}

func (f File) write(w io.Writer) error {
	_, err := io.WriteString(w, f.Text)
	return err
}

// files is everything that a report writes.
func (r *Report) files() []File {
	var files []File
	for _, t := range r.Tables {
		for _, f := range []struct{ format, extension string }{{"markdown", ".md"}, {"csv", ".csv"}} {
			var text strings.Builder
			if err := t.Write(&text, f.format); err != nil {
				panic(err) // memory takes everything
			}
			files = append(files, File{t.ID + f.extension, text.String()})
		}
	}
	return append(files, r.Files...)
}

// experiments in the order in which they run. Each entry loads its spec.
var experiments = []struct {
	id   string
	load func(...SpecFile) (Experiment, error)
}{
	{"consistency", loadConsistency},
	{"consistency-accuracy", loadAccuracy},
	{"table1", loadTable1},
	{"table2", loadTable2},
	{"table2-amoebanet", loadTable2AmoebaNet},
	{"table2-modelled", loadTable2Modelled},
	{"table3", loadTable3},
	{"ablation", loadAblation},
	{"figure3", loadFigure3},
	{"breakdown", loadBreakdown},
	{"validation", loadValidation},
	{"learning", loadLearning},
	{"translation", loadTranslation},
	{"translation-scale", loadScale},
	{"stability", loadStability},
	{"delayed-reduction", loadDelayed},
}

// IDs lists the experiments.
func IDs() []string {
	var ids []string
	for _, e := range experiments {
		ids = append(ids, e.id)
	}
	return ids
}

// Load finds an experiment and reads its spec, the one that is part of the
// program unless a file is given.
func Load(id string, from ...SpecFile) (Experiment, error) {
	for _, e := range experiments {
		if e.id == id {
			loaded, err := e.load(from...)
			if err == nil && len(from) > 0 {
				err = checkRuns(loaded, from[0])
			}
			return loaded, err
		}
	}
	return nil, usagef("unknown experiment %q: want %s", id, strings.Join(IDs(), ", "))
}

// key makes an experiment's key from what decides its samples: the text of its
// spec, the figures of accelerators that the spec names among it.
func key(id, profile, spec string) Key {
	return Key{Experiment: id, Profile: profile, Spec: digest(spec), Machine: ThisMachine().Key()}
}

// profileOf picks a profile out of a spec.
func profileOf[P any](profiles map[string]P, name string) (P, error) {
	p, ok := profiles[name]
	if !ok {
		return p, usage(CheckProfile(name))
	}
	return p, nil
}

// checkProfiles reports a profile that a spec lacks, or has too many.
func checkProfiles[P any](profiles map[string]P) *specProblem {
	for _, name := range slices.Sorted(maps.Keys(profiles)) {
		if err := CheckProfile(name); err != nil {
			return at(err, "profiles", name)
		}
	}
	for _, name := range Profiles {
		if _, ok := profiles[name]; !ok {
			return at(errors.New("no profile "+name+": want "+strings.Join(Profiles, ", ")), "profiles")
		}
	}
	return nil
}
