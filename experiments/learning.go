package experiments

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"gpipebench/internal/files"
)

// learningSpec is learning.yaml.
type learningSpec struct {
	head  `yaml:",inline"`
	Setup setupSpec `yaml:"setup"`
	Tasks []struct {
		Name  string `yaml:"name" want:"name,key"`
		Data  string `yaml:"data" want:"data"` // synthetic, or go-documentation
		Title string `yaml:"title"`
	} `yaml:"tasks"`
	Profiles map[string]struct {
		Expected span                    `yaml:"expected"`
		Tasks    map[string]trainingSpec `yaml:"tasks"`
	} `yaml:"profiles"`
}

// goDocumentation is the data that GoDocumentation makes.
const goDocumentation = "go-documentation"

// learning trains to the end and holds the outcome against yardsticks.
type learning struct {
	spec  learningSpec
	text  string
	setup Setup
}

func loadLearning(from ...SpecFile) (Experiment, error) {
	l := &learning{}
	var err error
	l.text, err = loadSpec("learning.yaml", from, &l.spec, l.check)
	return l, err
}

func (l *learning) check() *specProblem {
	var err error
	if l.setup, err = l.spec.Setup.setup(); err != nil {
		return at(err, "setup")
	}
	if p := checkProfiles(l.spec.Profiles); p != nil {
		return p
	}
	for _, task := range l.spec.Tasks {
		for _, name := range Profiles {
			if _, ok := l.spec.Profiles[name].Tasks[task.Name]; !ok {
				return at(errors.New("no task "+task.Name), "profiles", name, "tasks")
			}
			if l.spec.Profiles[name].Tasks[task.Name].Steps < 1 {
				return at(errors.New("want 1 or more"), "profiles", name, "tasks", task.Name, "steps")
			}
		}
	}
	return nil
}

func (l *learning) ID() string    { return l.spec.Experiment }
func (l *learning) Title() string { return l.spec.Title }

func (l *learning) Expected(profile string) time.Duration {
	return time.Duration(l.spec.Profiles[profile].Expected)
}

func (l *learning) Key(profile string) Key {
	return key(l.ID(), profile, l.text)
}

// learningSample is one training.
type learningSample struct {
	Training  trainingSpec `json:"-"`
	Bytes     int          `json:"bytes,omitempty"` // of the text
	Text      string       `json:"text,omitempty"`  // its hash
	GoVersion string       `json:"go_version,omitempty"`
	Seconds   float64      `json:"seconds"` // that the training took on this machine
	*TrainResult
}

func (l *learning) Measure(ctx context.Context, log *Log, p Progress) error {
	profile, err := profileOf(l.spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	for _, task := range l.spec.Tasks {
		if log.Has(task.Name) {
			continue
		}
		t := profile.Tasks[task.Name].training(task.Data, l.setup, l.spec.Seed)
		s := &learningSample{}
		if task.Data == goDocumentation {
			text, version, err := GoDocumentation()
			if err != nil {
				return fmt.Errorf("learning, %s: %w", task.Name, err)
			}
			dir, err := os.MkdirTemp("", "corpus-*")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			name := filepath.Join(dir, "go-documentation.txt")
			if err := writeText(name, text); err != nil {
				return err
			}
			t.Data = "text:" + name
			s.Bytes, s.Text, s.GoVersion = len(text), digest(string(text)), version
		}
		p.Begin("learning, "+task.Name, t.Steps)
		start := time.Now()
		if s.TrainResult, err = t.Run(ctx, func(step TrainStep) { p.Advance(fmt.Sprintf("loss %.4f", step.Loss)) }); err != nil {
			return fmt.Errorf("learning, %s: %w", task.Name, err)
		}
		s.Seconds = time.Since(start).Seconds()
		if err := log.Add(task.Name, l.spec.Seed, s); err != nil {
			return err
		}
		p.End()
	}
	return nil
}

// WriteCorpus writes GoDocumentation to a file.
func WriteCorpus(name string) (bytes int, err error) {
	text, _, err := GoDocumentation()
	if err != nil {
		return 0, err
	}
	return len(text), writeText(name, text)
}

func writeText(name string, text []byte) error {
	return files.Write(name, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}
