package train

import (
	"fmt"
	"runtime"
	"strings"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/internal/printable"
	"gpipebench/internal/units"
)

// notices calls Notice with what a user should know before the first step: what was
// found in files, and settings that have less effect than they seem to have. full is the
// size of the largest mini-batch.
func (l *Loop) notices(full int) {
	t := l.training
	if found := found(l.Source); found != "" && datasets.NamesFiles(t.Data) {
		t.notice(l.Source.Name() + ": " + found)
	}
	if full < t.Batch {
		t.notice(fmt.Sprintf("a mini-batch has %s and not %d: %s has no more to train on", units.Counted(full, "example"), t.Batch, l.Source.Name()))
	}
	if slow := t.Setup.Crowded(); slow != "" {
		t.notice(slow)
	}
}

// full returns the examples of a training's largest mini-batch: fewer than are asked for
// where there are fewer to train on.
func (l *Loop) full() (int, error) {
	if l.training.epochSteps != 1 || l.Steps == 0 {
		return l.training.Batch, nil // the first is full
	}
	b, err := l.batch(0)
	if err != nil {
		return 0, err
	}
	return b.Examples(), nil
}

// Crowded says why the setup's threads cannot all run at a time on this machine; "": they
// can, or its devices are emulated with no more threads each than there are cores.
func (s Setup) Crowded() string {
	cores, threads, parts := runtime.GOMAXPROCS(0), max(s.Threads, 1), s.parts()
	const same = "; results are the same"
	switch {
	case threads > cores:
		return fmt.Sprintf("%d threads for a device on %s: more threads than cores make a step slower%s", threads, units.Counted(cores, "core"), same)
	case s.Device == gpipe.Host && s.Partitions*parts*threads > cores && s.Partitions*parts > 1:
		what := units.Counted(s.Partitions, "host device")
		if parts > 1 {
			what = units.Counted(s.Partitions*parts, "part") + " of " + map[bool]string{true: "operations", false: "images"}[s.Tensor > 1] + " on " + what
		}
		return fmt.Sprintf("%s of %s share %s, so steps take longer than on as many accelerators: --device emulated models those%s",
			what, units.Counted(threads, "thread"), units.Counted(cores, "core"), same)
	}
	return ""
}

// parts is the number of each stage's parts.
func (s Setup) parts() int { return max(s.Spatial, s.Tensor, 1) }

// found says what a source has read from files; "": it reads none.
func found(s datasets.Source) string {
	switch s := s.(type) {
	case *datasets.ImageSet:
		return fmt.Sprintf("%s to train on, %d held out, of %d classes (%s), at %d x %[5]d pixels",
			units.Counted(s.Examples(datasets.Train), "image"), s.Examples(datasets.HeldOut), s.Vocab(), few(s.Classes()), s.Shape()[0])
	case *datasets.Text:
		return fmt.Sprintf("%s to train on, %s held out", units.FormatBytes(int64(len(s.Bytes(datasets.Train)))), units.FormatBytes(int64(len(s.Bytes(datasets.HeldOut)))))
	case *datasets.Translation:
		var all datasets.Language
		var trained []string
		for _, l := range s.Languages() {
			all.Train, all.HeldOut, all.Dropped = all.Train+l.Train, all.HeldOut+l.HeldOut, all.Dropped+l.Dropped
			trained = append(trained, fmt.Sprintf("%s %d", l.Name, l.Train))
		}
		text := fmt.Sprintf("%s to train on, %d held out, %d too long; by language: %s", units.Counted(all.Train, "pair"), all.HeldOut, all.Dropped, few(trained))
		if left := s.LeftOut(); len(left) > 0 {
			text += "; too few to train on: " + few(left)
		}
		return text
	}
	return ""
}

// few lists the first of many names.
func few(names []string) string {
	const most = 8
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", printable.Line(strings.Join(names[:most], ", ")), len(names)-most)
	}
	return printable.Line(strings.Join(names, ", "))
}
