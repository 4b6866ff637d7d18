package kernel

import (
	"testing"
)

// Every operand ends right before an inaccessible page, or begins right after one.
func TestLSTMBesideGuardPages(t *testing.T) {
	eachProfile(t, func(t *testing.T) {
		eachLSTM(func(c *lstmCase) {
			if c.Hidden < 16 || c.Hidden == 33 || c.Input == 1 {
				return // mapping takes long
			}
			for _, atEnd := range []bool{true, false} {
				o := newLSTMCase(c.LSTMShape, c.lengths)
				want := newLSTMCase(c.LSTMShape, c.lengths)
				want.run()
				t.Run(c.String(), func(t *testing.T) {
					for _, x := range o.operands() {
						if len(*x) > 0 {
							*x = besideGuard(t, *x, atEnd)
						}
					}
					o.run()
					sameBits(t, "beside guards", o.results(), want.results())
				})
			}
		})
	})
}
