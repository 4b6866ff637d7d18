package programtest

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"gpipebench/internal/testkit"
)

// Oracle is a file of vectors that PyTorch computed in float64 (by the script
// that it names).
type Oracle struct {
	t       testing.TB
	config  json.RawMessage
	tensors map[string]oracleTensor
}

type oracleTensor struct {
	Shape []int
	Data  []float64
}

// ReadOracle reads a file of vectors.
func ReadOracle(t testing.TB, path string) *Oracle {
	t.Helper()
	text := testkit.Must(os.ReadFile(path))(t)
	var file struct {
		Config  json.RawMessage
		Tensors map[string]oracleTensor
	}
	testkit.NoError(t, json.Unmarshal(text, &file), "%s", path)
	return &Oracle{t, file.Config, file.Tensors}
}

// Config decodes the file's configuration.
func (o *Oracle) Config(into any) {
	o.t.Helper()
	if err := json.Unmarshal(o.config, into); err != nil {
		o.t.Fatal(err)
	}
}

// Has reports whether there is a tensor of that name.
func (o *Oracle) Has(name string) bool { _, ok := o.tensors[name]; return ok }

// Names lists the tensors, in no order.
func (o *Oracle) Names() []string {
	var names []string
	for n := range o.tensors {
		names = append(names, n)
	}
	return names
}

// Shape returns the shape of a tensor.
func (o *Oracle) Shape(name string) []int { o.t.Helper(); return o.tensor(name).Shape }

// Exact returns a tensor as it is in the file.
func (o *Oracle) Exact(name string) []float64 { o.t.Helper(); return o.tensor(name).Data }

// Floats returns a tensor rounded to float32.
func (o *Oracle) Floats(name string) []float32 { o.t.Helper(); return as[float32](o.tensor(name).Data) }

// Ints returns a tensor of integers.
func (o *Oracle) Ints(name string) []int32 { o.t.Helper(); return as[int32](o.tensor(name).Data) }

func as[T float32 | int32](data []float64) []T {
	x := make([]T, len(data))
	for i, v := range data {
		x[i] = T(v)
	}
	return x
}

func (o *Oracle) tensor(name string) oracleTensor {
	o.t.Helper()
	t, ok := o.tensors[name]
	if !ok {
		o.t.Fatalf("the oracle has no tensor %q", name)
	}
	return t
}

// Close fails if got differs from the tensor by more than tolerance, in units
// of the tensor's largest magnitude (of 1 if all are 0). It logs the error.
func (o *Oracle) Close(t testing.TB, name string, got []float32, tolerance float64) {
	t.Helper()
	CloseTo(t, name, got, o.Exact(name), tolerance)
}

// CloseTo is [Oracle.Close] with any reference values.
func CloseTo(t testing.TB, name string, got []float32, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", name, len(got), len(want))
	}
	size := 0.0
	for _, w := range want {
		size = max(size, math.Abs(w))
	}
	if size == 0 {
		size = 1
	}
	worst, at := 0.0, 0
	for i, w := range want {
		err := math.Abs(float64(got[i])-w) / size
		if math.IsNaN(err) {
			err = math.Inf(1)
		}
		if err > worst {
			worst, at = err, i
		}
	}
	if worst > tolerance {
		t.Errorf("%s: element %d is %v, want %v: off by %.2g of the largest, tolerance %.2g", name, at, got[at], want[at], worst, tolerance)
		return
	}
	t.Logf("%-40s error %.1e", name, worst)
}
