// Package learning shows that networks learn through the pipeline.
package learning

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gpipebench/datasets"
	"gpipebench/experiments/machine"
	"gpipebench/experiments/progress"
	"gpipebench/experiments/records"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/trials"
	"gpipebench/experiments/workload"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = suite.Definition{ID: "learning", Folder: folder, New: suite.New[learning]}

// spec is spec.yaml.
type spec struct {
	suite.Head `yaml:",inline"`
	Setup      suite.SetupSpec `yaml:"setup"`
	Tasks      []struct {
		Name  string `yaml:"name" want:"name,key"`
		Data  string `yaml:"data" want:"data"` // synthetic, or go-documentation
		Title string `yaml:"title"`
	} `yaml:"tasks"`
	Profiles map[string]struct {
		Expected suite.Span                    `yaml:"expected" want:"shown"`
		Tasks    map[string]suite.TrainingSpec `yaml:"tasks"`
	} `yaml:"profiles"`
}

// learning trains to the end and compares the outcome with yardsticks.
type learning struct {
	suite.Base[spec]
	setup workload.Setup
}

func (l *learning) Resolve() *suite.Problem {
	l.setup = l.Spec.Setup.Setup()
	for _, task := range l.Spec.Tasks {
		for _, name := range suite.Profiles {
			switch training, ok := l.Spec.Profiles[name].Tasks[task.Name]; {
			case !ok:
				return suite.At(errors.New("no task "+task.Name), "profiles", name, "tasks")
			case training.Steps < 1:
				return suite.At(errors.New("want 1 or more"), "profiles", name, "tasks", task.Name, "steps")
			}
		}
	}
	return nil
}

// record is one training.
type record struct {
	Bytes     int    `json:"bytes,omitempty"` // of the text
	Text      string `json:"text,omitempty"`  // its hash
	GoVersion string `json:"go_version,omitempty"`
	trials.Whole
}

func (l *learning) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	profile, err := suite.ProfileOf(l.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	for _, task := range l.Spec.Tasks {
		if log.Has(task.Name) {
			continue
		}
		t := profile.Tasks[task.Name].Training(task.Data, l.setup, l.Spec.Seed)
		s := &record{}
		if task.Data == suite.DocumentationSource {
			dir, err := os.MkdirTemp("", "corpus-*")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			name := filepath.Join(dir, "go-documentation.txt")
			text, version, err := datasets.WriteGoDocumentation(name)
			if err != nil {
				return fmt.Errorf("learning, %s: %w", task.Name, err)
			}
			t.Data = "text:" + name
			s.Bytes, s.Text, s.GoVersion = len(text), machine.Digest(string(text)), version
		}
		if err := s.Train(ctx, l.ID(), task.Name, t, log, p); err != nil {
			return err
		}
		if err := log.Add(task.Name, l.Spec.Seed, s); err != nil {
			return err
		}
	}
	return nil
}

func (l *learning) Planned(profile string) (list []suite.PlannedRun) {
	for _, task := range l.Spec.Tasks {
		t := l.Spec.Profiles[profile].Tasks[task.Name].Training(task.Data, l.setup, l.Spec.Seed)
		if task.Data == suite.DocumentationSource { // whose tokens are bytes
			t.Data = ""
			if t.Model.Vocab == 0 {
				t.Model.Vocab = 256
			}
		}
		list = append(list, suite.PlannedRun{Path: []string{"profiles", profile, "tasks", task.Name}, Run: t})
	}
	return list
}
