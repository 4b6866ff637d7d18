package amoebanet

import (
	"cmp"
	"fmt"
)

// Validate reports the first field that is out of range.
func (c Config) Validate() error {
	d := c.withDefaults()
	divisor := 8
	if d.Official {
		divisor = 16
	}
	switch {
	case c.Cells > B:
		return fmt.Errorf("amoebanet: unknown Cells %d, want D or B", c.Cells)
	case c.Layers < 3 || c.Layers%3 != 0:
		return fmt.Errorf("amoebanet: Layers is %d, want a multiple of 3, as there are three stacks of normal cells", c.Layers)
	case c.Filters < 1 || c.Filters%divisor != 0:
		return fmt.Errorf("amoebanet: Filters is %d, want a multiple of %d, as the first cell has a bottleneck of 1/%d of them", c.Filters, divisor, divisor)
	case c.Classes < 1:
		return fmt.Errorf("amoebanet: Classes is %d, want at least 1", c.Classes)
	case d.Channels < 1:
		return fmt.Errorf("amoebanet: Channels is %d, want at least 1 (0: 3)", c.Channels)
	case c.Image < 0 || !d.largeEnough():
		smallest := d
		for smallest.Image = 1; !smallest.largeEnough(); {
			smallest.Image++
		}
		return fmt.Errorf("amoebanet: images of %d pixels are too small to be halved five times, want at least %d (0: 224)", c.Image, smallest.Image)
	case !(c.DropPath >= 0 && c.DropPath < 1):
		return fmt.Errorf("amoebanet: DropPath is %v, want at least 0 and less than 1", c.DropPath)
	case c.DropPathSteps < 0:
		return fmt.Errorf("amoebanet: DropPathSteps is %d, want 0 or more", c.DropPathSteps)
	case !(c.Dropout >= 0 && c.Dropout < 1):
		return fmt.Errorf("amoebanet: Dropout is %v, want at least 0 and less than 1", c.Dropout)
	case c.AuxScale != 0 && !c.Aux:
		return fmt.Errorf("amoebanet: AuxScale is %v without an auxiliary head: want Aux", c.AuxScale)
	case !(128*d.AuxScale >= 1 && d.AuxScale <= 100):
		return fmt.Errorf("amoebanet: AuxScale is %v, want 1/128 to 100 (0: 0.4)", c.AuxScale)
	case !(c.Momentum >= 0 && c.Momentum < 1):
		return fmt.Errorf("amoebanet: Momentum is %v, want at least 0 and less than 1 (0: 0.9)", c.Momentum)
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.Official = c.Official || c.Cells == B
	c.Image, c.Channels, c.AuxScale = cmp.Or(c.Image, 224), cmp.Or(c.Channels, 3), cmp.Or(c.AuxScale, 0.4)
	return c
}

// stemSize returns the height and width after the stem's convolution.
func (c Config) stemSize() int {
	n := c.Image
	if c.Official {
		n -= 2 // no padding around a 3x3 window
	}
	if c.Delayed {
		return n
	}
	return (n + 1) / 2
}

// largeEnough reports whether every halving has two pixels to halve: that of
// the stem or of the last cell, only one of which has stride 2, and those of
// four reductions.
func (c Config) largeEnough() bool {
	n := c.stemSize()
	for range 4 {
		if n < 2 {
			return false
		}
		n = (n + 1) / 2
	}
	return n >= 2 || n == 1 && !c.Delayed
}
