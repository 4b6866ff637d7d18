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
	"gpipebench/internal/machine"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
	"gpipebench/train"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "learning", Folder: folder, New: lab.New[learning]}

// spec is spec.yaml.
type spec struct {
	lab.Head `yaml:",inline"`
	Setup    lab.SetupSpec `yaml:"setup"`
	Tasks    []struct {
		Name  string `yaml:"name" want:"name,key"`
		Data  string `yaml:"data" want:"data"` // synthetic, or go-documentation
		Title string `yaml:"title"`
	} `yaml:"tasks"`
	Profiles map[string]struct {
		Expected lab.Span                    `yaml:"expected" want:"shown"`
		Tasks    map[string]lab.TrainingSpec `yaml:"tasks"`
	} `yaml:"profiles"`
}

// learning trains to the end and compares the outcome with yardsticks.
type learning struct {
	lab.Base[spec]
	setup train.Setup
}

func (l *learning) Resolve() *lab.Problem {
	l.setup = l.Spec.Setup.Setup()
	for _, task := range l.Spec.Tasks {
		for _, name := range lab.Profiles {
			switch training, ok := l.Spec.Profiles[name].Tasks[task.Name]; {
			case !ok:
				return lab.At(errors.New("no task "+task.Name), "profiles", name, "tasks")
			case training.Steps < 1:
				return lab.At(errors.New("want 1 or more"), "profiles", name, "tasks", task.Name, "steps")
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
	trained.Whole
}

func (l *learning) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	profile, err := lab.ProfileOf(l.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	for _, task := range l.Spec.Tasks {
		if log.Has(task.Name) {
			continue
		}
		t := profile.Tasks[task.Name].Training(task.Data, l.setup, l.Spec.Seed)
		s := &record{}
		if task.Data == lab.DocumentationSource {
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

func (l *learning) Planned(profile string) (list []lab.PlannedRun) {
	for _, task := range l.Spec.Tasks {
		t := l.Spec.Profiles[profile].Tasks[task.Name].Training(task.Data, l.setup, l.Spec.Seed)
		if task.Data == lab.DocumentationSource { // whose tokens are bytes
			t.Data = ""
			if t.Model.Vocab == 0 {
				t.Model.Vocab = 256
			}
		}
		list = append(list, lab.PlannedRun{Path: []string{"profiles", profile, "tasks", task.Name}, Run: t})
	}
	return list
}
