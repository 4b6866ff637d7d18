package gpipe

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"gpipebench/datasets"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/train"
)

// transferContents is what a set of images was found to be.
type transferContents struct {
	Train   int    `json:"train"` // images
	HeldOut int    `json:"held_out"`
	Classes int    `json:"classes"`
	SHA256  string `json:"data_sha256,omitempty"` // of files: see datasets.Digest
}

// Check requires images of both splits.
func (c *transferContents) Check() error {
	if c.Train < 1 || c.HeldOut < 1 || c.Classes < 2 {
		return fmt.Errorf("%d and %d images of %d classes", c.Train, c.HeldOut, c.Classes)
	}
	return nil
}

// sample is the name of a set's record.
func (s transferSet) sample() string { return "set, " + s.Name }

// read reads every set before anything is trained, and records what it is. A set that
// differs from its record is refused.
func (x *transfer) read(p transferProfile, log *records.Log) error {
	for _, s := range append([]transferSet{p.From}, p.To...) {
		now, err := transferContentsOf(x.training(p, s, p.Scratch, x.Spec.Seed))
		switch {
		case errors.Is(err, fs.ErrNotExist) && p.Make != "":
			return fmt.Errorf("%s, %s: %w: want `make %s` first, which brings it, or --spec with a copy of the spec that names other data", x.ID(), s.Name, err, p.Make)
		case err != nil:
			return fmt.Errorf("%s, %s: %w", x.ID(), s.Name, err)
		}
		if !log.Has(s.sample()) {
			if err := log.Add(s.sample(), x.Spec.Seed, now); err != nil {
				return err
			}
			continue
		}
		var was transferContents
		if err := log.Get(s.sample(), &was); err != nil {
			return err
		}
		if was != *now {
			return fmt.Errorf("%s, %s: %s has %d and %d images of %d classes, digest %.16s, and its record %d and %d of %d, digest %.16s: want the same images, or --fresh, which measures anew",
				x.ID(), s.Name, s.Data, now.Train, now.HeldOut, now.Classes, now.SHA256, was.Train, was.HeldOut, was.Classes, was.SHA256)
		}
	}
	return nil
}

// transferContentsOf reads the images of a training.
func transferContentsOf(t train.Training) (*transferContents, error) {
	s, err := t.Source()
	if err != nil {
		return nil, err
	}
	return &transferContents{Train: s.Batches(datasets.Train, 1), HeldOut: s.Batches(datasets.HeldOut, 1), Classes: s.Vocab(), SHA256: datasets.Digest(s)}, nil
}

// counted returns what the table has of a set: training and test images, and classes.
func (s transferSet) counted(log *records.Log) ([]any, error) {
	var c transferContents
	if err := log.Get(s.sample(), &c); err != nil {
		return nil, err
	}
	return []any{c.Train, c.HeldOut, c.Classes}, nil
}

func (s transferSet) heldOutOf() int { return cmp.Or(s.HeldOutOf, datasets.DefaultHeldOutOf) }

// described says in a caption what images the sets of a profile have, and how those of
// training are changed.
func (p transferProfile) described() string {
	text := "Sets are procedural images that differ in shapes and textures, in number and in noise"
	if p.From.Data != "synthetic" {
		var parts []string
		for _, s := range p.To {
			parts = append(parts, fmt.Sprint(s.heldOutOf()))
		}
		text = fmt.Sprintf("Sets are images in files, whose digests are in the records; of every class one image of %d is for testing in the set of the pretraining, one of %s in the others",
			p.From.heldOutOf(), strings.Join(slices.Compact(parts), ", "))
	}
	return fmt.Sprintf("%s. Training images are randomly mirrored: %s; cropped from a margin of %d pixels; and a square of %d pixels is cut out.", text, lab.YesOrNo(p.Images.Flip), p.Images.Crop, p.Images.Cutout)
}
