package train

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/internal/units"
	"gpipebench/nn"
	"gpipebench/nn/safetensors"
)

// The metadata of a weights file besides those of gpipe.Trainer.Save: which network its
// weights are of, and the meaning of its inputs and outputs.
const (
	modelKey  = "model"             // a Model
	SourceKey = "source_vocabulary" // a datasets.VocabularyDescription, of a translator
	TargetKey = "target_vocabulary" // the same
	ClassKey  = "classes"           // their names, of images
	PixelKey  = "pixels"            // a datasets.PixelScale, of images
	formatKey = "format"            // pt, of a llama: readers of published files ask whose layout weights have, PyTorch's
	typeKey   = "activations"       // the type of activations with which they were trained; none: f32
)

// meaning returns what a source's numbers stand for, by key; nil if they stand for
// themselves, as bytes do.
func meaning(s datasets.Source) map[string]any {
	switch s := s.(type) {
	case *datasets.Translation:
		return map[string]any{SourceKey: datasets.DescribeVocabulary(s.Source()), TargetKey: datasets.DescribeVocabulary(s.Target())}
	case *datasets.ImageSet:
		return map[string]any{ClassKey: s.Classes(), PixelKey: s.Scale()}
	}
	return nil
}

// metadata is what the weights of a training are of, for their file.
func (t *Training) metadata(s datasets.Source) (map[string]string, error) {
	all := map[string]any{modelKey: t.Model}
	maps.Copy(all, meaning(s))
	metadata := map[string]string{}
	for key, v := range all {
		text, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		metadata[key] = string(text)
	}
	if dt := t.Setup.dtype(); dt != "" {
		metadata[typeKey] = dt
	}
	if t.Model.Name == Llama {
		metadata[formatKey] = "pt"
	}
	return metadata, nil
}

// Save writes the weights to the training's file and, as metadata, what they are of.
func (l *Loop) Save() error {
	t := l.training
	path := t.Save
	if t.Processes.follows() {
		path = "" // only takes part
	}
	write := func() error { return l.save(path) }
	if t.SaveEMA {
		return l.Trainer.Averaged(write)
	}
	return write()
}

func (l *Loop) save(path string) error {
	metadata, err := l.training.metadata(l.Source)
	if err != nil {
		return err
	}
	return l.Trainer.Save(path, metadata)
}

// load loads the weights of a file, if there is one. It refuses a file that says that
// its weights are of a network that computes something else, although every shape may
// be the same, or of other vocabularies or classes. Pixels are scaled as the file says.
// Notice gets what a file does not say.
func (l *Loop) load() error {
	t := l.training
	if t.Load == "" {
		return nil
	}
	f, err := safetensors.Open(t.Load)
	if err != nil {
		return err
	}
	defer f.Close()
	unsaid, differences := t.checkMeaning(t.Load, l.Source, f.Metadata)
	if len(differences) > 0 {
		return fmt.Errorf("%s: %w", t.Load, differences[0])
	}
	says, err := t.checkNetwork(f.Metadata)
	if err != nil {
		return fmt.Errorf("%s: %w", t.Load, err)
	}
	if !says {
		unsaid = append([]string{"network"}, unsaid...)
	}
	if len(unsaid) > 0 {
		t.notice(fmt.Sprintf("%s does not say of which %s its weights are, which is not checked", t.Load, strings.Join(unsaid, ", ")))
	}
	if was, is := f.Metadata[typeKey], t.Setup.dtype(); was != is {
		t.notice(fmt.Sprintf("%s has float32 weights that were trained with %s activations, and this network computes with %s", t.Load, cmp.Or(was, "f32"), cmp.Or(is, "f32")))
	}
	return l.Trainer.Load(t.Load)
}

// loadPart loads what fits of a file of weights, if there is one. Notice gets what was
// left out, and where the weights' meaning differs. Pixels are scaled as the file says.
func (l *Loop) loadPart() error {
	t := l.training
	if t.LoadPart == "" {
		return nil
	}
	f, err := safetensors.Open(t.LoadPart)
	if err != nil {
		return err
	}
	defer f.Close()
	_, differences := t.checkMeaning(t.LoadPart, l.Source, f.Metadata)
	for _, difference := range differences {
		t.notice(fmt.Sprintf("%s: %v", t.LoadPart, difference))
	}
	var keep []string
	lacking := "that the file lacks"
	if layers := l.Pipeline.Layers; t.NewLast {
		keep = append(keep, nn.ScopeOf(layers[len(layers)-1]))
		lacking += " or that are of the last layer"
	}
	left, err := l.Trainer.LoadPart(t.LoadPart, keep...)
	if err != nil {
		return err
	}
	for _, side := range []struct {
		what string
		left []gpipe.NamedShape
	}{{lacking + ", which keep their initial values", left.Network}, {"of the file that the network lacks", left.File}} {
		var names []string
		for _, s := range side.left {
			names = append(names, fmt.Sprintf("%.60q %v", s.Path, s.Shape))
		}
		if n := len(names); n > 0 {
			t.notice(fmt.Sprintf("%s: not loaded: %s %s: %s", t.LoadPart, units.Counted(n, "tensor"), side.what, few(names)))
		}
	}
	return nil
}

// checkNetwork refuses the weights of a network that computes something else, and names
// the settings that make it so. It returns whether the metadata says which network they
// are of.
func (t *Training) checkNetwork(metadata map[string]string) (says bool, err error) {
	var from Model
	function, says := metadata[gpipe.FunctionKey]
	if json.Unmarshal([]byte(metadata[modelKey]), &from) != nil || from == (Model{}) {
		return says, nil // another program's; Trainer.Load compares the function
	}
	ours, err := t.Model.Fingerprint()
	if err != nil {
		return true, err
	}
	if function == ours {
		return true, nil
	}
	if others := t.Model.othersThan(from, ours); len(others) > 0 {
		return true, fmt.Errorf("its weights are of a network with %s: want the same, since another network computes something else with them", strings.Join(others, "; with "))
	}
	return true, nil
}

// Fingerprint is the same for networks that compute the same: see
// gpipe.Pipeline.Fingerprint.
func (m Model) Fingerprint() (string, error) {
	layers, err := m.Build()
	if err != nil {
		return "", err
	}
	return gpipe.Pipeline{Layers: layers}.Fingerprint(m.Input(1))
}

// othersThan lists the settings in which another model differs from this one, whose fingerprint
// is given, that change what this one computes.
func (m Model) othersThan(from Model, fingerprint string) (others []string) {
	theirs, ours := reflect.ValueOf(from), reflect.ValueOf(m)
	for i := range ours.NumField() {
		changed := m
		reflect.ValueOf(&changed).Elem().Field(i).Set(theirs.Field(i))
		if changed == m {
			continue
		}
		if other, err := changed.Fingerprint(); err == nil && other == fingerprint {
			continue
		}
		name, _, _ := strings.Cut(ours.Type().Field(i).Tag.Get("json"), ",")
		if name == "name" {
			return []string{fmt.Sprintf("%s %.60q, and this one is %q", modelKey, from.Name, m.Name)}
		}
		format := "%s %v, and this one has %v"
		if ours.Field(i).Kind() == reflect.String {
			format = "%s %.60q, and this one has %.60q"
		}
		others = append(others, fmt.Sprintf(format, strings.ReplaceAll(name, "_", "-"), theirs.Field(i), ours.Field(i)))
	}
	return others
}

// checkMeaning finds other vocabularies and classes than the source's, and scales its
// pixels. It returns what a file's metadata does not say, and where it differs.
func (t *Training) checkMeaning(file string, s datasets.Source, metadata map[string]string) (unsaid []string, differences []error) {
	ours := meaning(s)
	for _, key := range slices.Sorted(maps.Keys(ours)) {
		text, said := metadata[key]
		if !said {
			unsaid = append(unsaid, named(key))
			continue
		}
		theirs := reflect.New(reflect.TypeOf(ours[key]))
		if json.Unmarshal([]byte(text), theirs.Interface()) != nil {
			differences = append(differences, fmt.Errorf("its metadata %s is %.60q: want what train --save writes there", key, text))
			continue
		}
		var err error
		switch theirs := theirs.Elem().Interface().(type) {
		case datasets.VocabularyDescription:
			ours := ours[key].(datasets.VocabularyDescription)
			if err = sameNames(theirs.Pieces, ours.Pieces); err == nil && !slices.Equal(theirs.Joins, ours.Joins) {
				err = errors.New("its pieces are joined in another order")
			}
		case []string:
			err = sameNames(theirs, ours[key].([]string))
		case datasets.PixelScale:
			err = t.rescale(file, s.(*datasets.ImageSet), theirs)
		}
		if err != nil {
			differences = append(differences, fmt.Errorf("its %s: not that of %s: %w", named(key), s.Name(), err))
		}
	}
	return unsaid, differences
}

// named returns a key of metadata as it stands in a message.
func named(key string) string { return strings.ReplaceAll(key, "_", " ") }

// sameNames refuses names that are not ours, in our order.
func sameNames(theirs, ours []string) error {
	for i := range min(len(theirs), len(ours)) {
		if theirs[i] != ours[i] {
			return fmt.Errorf("number %d is %.60q in the file, and %.60q in the data", i, theirs[i], ours[i])
		}
	}
	if len(theirs) != len(ours) {
		return fmt.Errorf("%d in the file, and %d in the data", len(theirs), len(ours))
	}
	return nil
}

// rescale scales the source's pixels as in the training of the weights.
func (t *Training) rescale(file string, s *datasets.ImageSet, to datasets.PixelScale) error {
	from := s.Scale()
	if to.Equal(from) {
		return nil
	}
	if err := s.Rescale(to); err != nil {
		return err
	}
	t.notice(fmt.Sprintf("pixels are scaled as %s says: means %.4g, deviations %.4g; those of %s are %.4g and %.4g",
		file, to.Mean, to.Deviation, s.Name(), from.Mean, from.Deviation))
	return nil
}

func (t *Training) notice(what string) {
	if t.Notice != nil {
		t.Notice(what)
	}
}
