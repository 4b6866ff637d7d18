package convnet

import (
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
)

// A network has a stem, its blocks and a classifier; a configuration without
// blocks or channels is rejected.
func TestNew(t *testing.T) {
	layers := testkit.Must(New(Config{Layers: 4, Filters: 8, Channels: 3, Classes: 10}))(t)
	testkit.Equal(t, len(layers), 6, "layers")
	block := 8*8*(9+7+7+2) + 4*8
	testkit.Equal(t, nn.CountParams(layers), int64(8*3*9+8+4*block+8*10+10), "parameters")
	for _, c := range []Config{{Filters: 8, Channels: 3, Classes: 10}, {Layers: 1, Channels: 3, Classes: 10}, {Layers: 1, Filters: 8, Classes: 10}, {Layers: 1, Filters: 8, Channels: 3}} {
		testkit.Refused(New(c))(t, "want 1 or more")
	}
}
