package train

import (
	"slices"
	"testing"

	"gpipebench/nn"
)

// A batch is its source's: what is trained without sources leaves it as it is.
func TestBlindLeavesTheBatch(t *testing.T) {
	seen := nn.Batch{Inputs: []nn.Tensor{{}, {Shape: []int{2}, I32: []int32{3, 4}}, {}}}
	training := Training{EmptySource: true}
	blind := training.blind(seen)
	if !slices.Equal(seen.Inputs[1].I32, []int32{3, 4}) || !slices.Equal(blind.Inputs[1].I32, []int32{0, 0}) {
		t.Errorf("lengths %v became %v in the batch, and %v in what is trained on", []int32{3, 4}, seen.Inputs[1].I32, blind.Inputs[1].I32)
	}
}
