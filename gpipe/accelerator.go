package gpipe

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"

	"gpipebench/gpipe/timeline"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// Accelerator is a device that is modelled by a roofline (Williams, Waterman,
// Patterson 2009): an operation takes as long as its arithmetic at peak rate or
// as its memory traffic at full bandwidth, whichever is longer, and an
// overhead. Accelerators are data: see accelerators.yaml.
type Accelerator struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
	FLOPs       struct {
		BF16 float64 `yaml:"bf16"`
		F32  float64 `yaml:"f32"`
	} `yaml:"flops"` // per second
	Memory    int64   `yaml:"memory"`    // bytes
	Bandwidth float64 `yaml:"bandwidth"` // bytes per second
	Overhead  float64 `yaml:"overhead"`  // seconds an operation
	Link      struct {
		Bandwidth   float64 `yaml:"bandwidth"`
		Latency     float64 `yaml:"latency"`
		ThroughHost bool    `yaml:"through_host"`
	} `yaml:"link"`
	Source string `yaml:"source"`
}

//go:embed accelerators.yaml
var acceleratorsYAML []byte

// Accelerators are those that come with the program.
func Accelerators() ([]Accelerator, error) {
	var list []Accelerator
	d := yaml.NewDecoder(bytes.NewReader(acceleratorsYAML))
	d.KnownFields(true)
	if err := d.Decode(&list); err != nil {
		return nil, fmt.Errorf("accelerators.yaml: %w", err)
	}
	return list, nil
}

// AcceleratorNamed finds one of Accelerators.
func AcceleratorNamed(name string) (*Accelerator, error) {
	list, err := Accelerators()
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range list {
		if list[i].Name == name {
			return &list[i], nil
		}
		names = append(names, list[i].Name)
	}
	return nil, fmt.Errorf("unknown accelerator %q: want %s", name, strings.Join(names, ", "))
}

// Device is a modelled device of this kind, with its memory as capacity.
func (a *Accelerator) Device() Device {
	return Device{
		Kind: Modelled, Accelerator: a, Capacity: a.Memory,
		Link: timeline.Link{Bandwidth: a.Link.Bandwidth, Latency: a.Link.Latency, ThroughHost: a.Link.ThroughHost},
	}
}

// seconds is the roofline's time for a program whose activations are of a dtype.
func (a *Accelerator) seconds(p *program.Program, dt graph.DType) float64 {
	rate := a.FLOPs.F32
	if dt == graph.BF16 {
		rate = a.FLOPs.BF16
	}
	var sum float64
	for _, in := range p.Instrs {
		bytes := float64(in.Cost.Bytes) * float64(dt.Bytes()) / floatBytes
		sum += max(float64(in.Cost.FLOPs)/rate, bytes/a.Bandwidth) + a.Overhead
	}
	return sum
}
