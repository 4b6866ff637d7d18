package nn_test

import (
	"strings"
	"testing"

	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program/programtest"
)

// lstmTolerance bounds the error of a scan, in units of a tensor's largest magnitude: the
// roundings of all its steps.
const lstmTolerance = 2e-6

// TestLSTMAgainstPyTorch: one direction and both, with and without lengths, hoisted and
// inside.
func TestLSTMAgainstPyTorch(t *testing.T) {
	oracle := programtest.ReadOracle(t, "testdata/lstm.json")
	var config struct {
		Batch, Time, Width, Hidden int
		Cases                      []string
	}
	oracle.Config(&config)
	for _, name := range config.Cases {
		for _, inside := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				c := nn.LSTMConfig{
					In: config.Width, Hidden: config.Hidden, Inside: inside,
					Bidirectional: strings.HasPrefix(name, "both"), Padded: strings.HasSuffix(name, "padded"),
				}
				in := []graph.Type{programtest.Floats(config.Batch, config.Time, config.Width)}
				if c.Padded {
					in = append(in, programtest.Integers(config.Batch))
				}
				r := programtest.CompileLayers(t, programtest.Network{
					Layers: []nn.Layer{nn.Sequential("layer", nn.NewLSTM("", c))}, In: in,
				})
				copy(r.In(0), oracle.Floats("x"))
				if c.Padded {
					copy(programtest.Ints(r.In(1)), oracle.Ints("lengths"))
				}
				copy(r.DOut(0), oracle.Floats(name+"/dy"))
				ways := map[string]string{"forward": "layer/"}
				if c.Bidirectional {
					ways = map[string]string{"forward": "layer/forward/", "backward": "layer/backward/"}
				}
				params := []string{"input/weight", "input/bias", "recurrent/weight"}
				for way, at := range ways {
					for _, p := range params {
						copy(r.Param(at+p), oracle.Floats("param/"+way+"/"+p))
					}
				}
				r.Keep()
				r.Backward()
				oracle.Close(t, name+"/y", r.Out(0), lstmTolerance)
				oracle.Close(t, name+"/dx", r.DIn(0), lstmTolerance)
				for way, at := range ways {
					for _, p := range params {
						oracle.Close(t, name+"/grad/"+way+"/"+p, r.Grad(at+p), lstmTolerance)
					}
				}
			})
		}
	}
}

// TestLSTMParams: 4h(in + h + 1) for each direction.
func TestLSTMParams(t *testing.T) {
	for _, c := range []struct {
		config nn.LSTMConfig
		want   string
	}{
		{nn.LSTMConfig{In: 3, Hidden: 5}, "a/input/weight(3,20) a/input/bias(20) a/recurrent/weight(5,20)"},
		{nn.LSTMConfig{In: 3, Hidden: 5, Bidirectional: true}, "a/forward/input/weight(3,20) a/forward/input/bias(20) a/forward/recurrent/weight(5,20) " +
			"a/backward/input/weight(3,20) a/backward/input/bias(20) a/backward/recurrent/weight(5,20)"},
	} {
		var all []string
		layer := nn.NewLSTM("a", c.config)
		for _, p := range layer.Params() {
			all = append(all, p.Name+p.Shape.String())
		}
		if got := strings.Join(all, " "); got != c.want {
			t.Errorf("%+v: %s, want %s", c.config, got, c.want)
		}
		want := int64(4 * 5 * (3 + 5 + 1))
		if c.config.Bidirectional {
			want *= 2
		}
		if got := nn.CountParams([]nn.Layer{layer}); got != want {
			t.Errorf("%+v: %d parameters, want %d", c.config, got, want)
		}
	}
}
