package experiments

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"gpipebench/internal/floatjson"
	"gpipebench/lab/records"
	"gpipebench/train"
)

// Every number is printed, recorded and read back, also those that JSON does not
// have; and what JSON has is written as the standard library writes it.
func TestJSON(t *testing.T) {
	type numbers struct {
		A float64            `json:"a"`
		B []float64          `json:"b"`
		C *float64           `json:"c,omitempty"`
		D map[string]float64 `json:"d"`
		E float64            `json:"e,omitempty"`
	}
	inf := math.Inf(1)
	v := numbers{A: inf, B: []float64{1, math.Inf(-1), 2.5e-300}, C: &inf, D: map[string]float64{"x": -inf}}
	var b bytes.Buffer
	if err := floatjson.Write(&b, v); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(strings.Fields(b.String()), ""), `{"a":"Infinity","b":[1,"-Infinity",2.5e-300],"c":"Infinity","d":{"x":"-Infinity"}}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	log := records.New(records.Key{})
	if err := log.Add("sample", 1, v); err != nil {
		t.Fatal(err)
	}
	var back numbers
	if err := log.Get("sample", &back); err != nil || !reflect.DeepEqual(back, v) {
		t.Errorf("%+v, %v: want %+v", back, err, v)
	}
	if err := log.Add("nan", 1, []float64{math.NaN()}); err != nil {
		t.Fatal(err)
	}
	var nan []float64
	if err := log.Get("nan", &nan); err != nil || !math.IsNaN(nan[0]) {
		t.Errorf("%v, %v: want NaN", nan, err)
	}
	if err := floatjson.Unmarshal([]byte(`["1"]`), &nan); err == nil || !strings.Contains(err.Error(), "want a number") {
		t.Errorf("a string for a number: %v", err)
	}

	top := 0.5
	r := train.Result{Losses: []float64{}, Eval: &train.Evaluation{Loss: 1e21, Top1: &top}, PeakBytes: []int64{1}, Note: "<&>\u2028", KernelProfile: "x"}
	want, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := floatjson.Marshal(r); err != nil || !bytes.Equal(got, line) {
		t.Errorf("%s, %v\nwant %s", got, err, line)
	}
	b.Reset()
	if err := floatjson.Write(&b, r); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(want))+"\n"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
