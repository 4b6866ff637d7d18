package experiments

import (
	"bytes"
	"image"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpipebench/nn/graph"
)

// What a record says is what was written, or it is refused.
func FuzzDecodeRecord(f *testing.F) {
	r := &record{Session: "s", Key: Key{Experiment: "e", Profile: "smoke"}, Sample: "a", Data: []byte(`{"x":[1,2.5]}`)}
	line, err := r.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Add(line[:len(line)-3])
	f.Add([]byte(`{"sample":"a","sha256":"0000000000000000"}`))
	f.Add([]byte(`,"sha256":""}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := decodeRecord(bytes.Clone(line))
		if err != nil {
			return
		}
		again, err := r.encode()
		if err != nil {
			t.Fatal(err)
		}
		if s, err := decodeRecord(again); err != nil || s.Sample != r.Sample || s.Key != r.Key {
			t.Errorf("%q comes back as %+v, %v", line, s, err)
		}
	})
}

func FuzzParseBytes(f *testing.F) {
	for _, s := range []string{"0", "64MiB", "1.5GiB", "2GB", "-1", "1e300TB", "0x1p4KiB", "inf", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := ParseBytes(s); err == nil && n < 0 {
			t.Errorf("%q is %d", s, n)
		}
	})
}

// Whatever the sizes, a simulation is refused in one line, or nothing in it has
// overflowed.
func FuzzSimulate(f *testing.F) {
	f.Add(uint8(0), 2, 16, 32, 2, 8, 8, 8, 8, 2, 2, 4, false)
	f.Add(uint8(0), 3, 1<<20, 1<<22, 1<<10, 1<<20, 1<<20, 8, 8, 2, 2, 1<<24, true)
	f.Add(uint8(1), 2, 1<<20, 1<<20, 1, 1<<19, 1, 8, 8, 2, 1, 1<<19, false)
	f.Add(uint8(2), 3, 0, 0, 0, 0, 0, 1<<16, 1<<14, 1<<24, 2, 1<<24, false)
	f.Add(uint8(3), 3, 0, 0, 0, 0, 0, 1<<16, 1<<14, 1<<24, 4, 1<<30, false)
	f.Fuzz(func(t *testing.T, name uint8, layers, dim, ff, heads, vocab, seq, filters, image, classes, k, batch int, keep bool) {
		m := Model{
			Name: Models()[int(name)%len(Models())], Layers: layers % 7, Dim: dim, FF: ff, Heads: heads, Vocab: vocab, Seq: seq,
			Image: image, Classes: classes,
		}
		if m.Name == amoebaNet {
			m.Filters = filters
		} else {
			m.Width = filters
		}
		s := Simulating{
			Model: m, Setup: Setup{Partitions: k, MicroBatches: k}, Batch: batch,
			Accelerator: "tpuv3", Optimizer: "adam", DType: graph.BF16, KeepScores: keep, Tiled: "on",
		}
		r, err := s.Run(t.Context())
		if err != nil {
			if text := err.Error(); strings.Contains(text, "\n") || strings.Contains(text, "costs -") {
				t.Errorf("%+v: %v", s, err)
			}
			return
		}
		if !(r.StepSeconds > 0) || math.IsInf(r.StepSeconds, 0) || r.Params < 1 {
			t.Errorf("%+v: a step of %v s, %d parameters", s, r.StepSeconds, r.Params)
		}
		for _, d := range r.Devices {
			if min(d.ParamBytes, d.ActivationBytes, d.PeakBytes, d.BoundaryBytes, d.ResidualBytes, d.WorkspaceBytes, d.GradientBytes) < 0 || !(d.BusySeconds > 0) {
				t.Errorf("%+v: %+v", s, d)
			}
		}
	})
}

// Whatever a records file holds, it is read in one piece, with what is wrong in it
// said, and reading what was read and set aside again finds the same samples.
func FuzzOpenLog(f *testing.F) {
	k := Key{Experiment: "e", Profile: "smoke"}
	whole := ""
	for _, r := range []*record{{Session: "s", Key: k, Provenance: &Provenance{}}, {Session: "s", Key: k, Sample: "a", Data: []byte(`{"x":1}`)}} {
		line, err := r.encode()
		if err != nil {
			f.Fatal(err)
		}
		whole += string(line) + "\n"
	}
	for _, text := range []string{"", whole, whole + whole, whole[:len(whole)-1], whole + whole[:40], "x\n" + whole, "\n\n\x00\n", strings.Repeat("x\n", 100), whole + "rubbish"} {
		f.Add([]byte(text))
	}
	name := filepath.Join(f.TempDir(), "e.jsonl")
	f.Fuzz(func(t *testing.T, text []byte) {
		os.Remove(name + ".torn")
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := OpenLog(name, k, false)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if said := l.Damaged + l.Torn; strings.ContainsAny(said, "\n\r") || len(said) > 2000 {
			t.Errorf("said: %q", said)
		}
		again, err := LoadLog(name, "e")
		if err != nil && len(l.names) > 0 {
			t.Fatal(err)
		}
		if err == nil && again.Key == k && !slices.Equal(again.names, l.names) {
			t.Errorf("%q holds %q, then %q", text, l.names, again.names)
		}
		if err == nil && again.Torn != "" {
			t.Errorf("still torn: %s", again.Torn)
		}
	})
}

// A picture that verify finds is ours or is not, whatever it is.
func FuzzSameFile(f *testing.F) {
	var own bytes.Buffer
	if err := png.Encode(&own, image.NewGray(image.Rect(0, 0, 3, 2))); err != nil {
		f.Fatal(err)
	}
	f.Add(own.Bytes())
	f.Add(own.Bytes()[:33])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, other []byte) {
		if !sameFile("a.png", own.String(), own.String()) {
			t.Error("a picture is not itself")
		}
		if sameFile("a.png", string(other), own.String()) {
			if size, err := png.DecodeConfig(bytes.NewReader(other)); err != nil || size.Width != 3 || size.Height != 2 {
				t.Errorf("%q passes as ours: %v, %v", other, size, err)
			}
		}
	})
}
