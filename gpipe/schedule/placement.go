package schedule

import (
	"fmt"
	"slices"

	"gpipebench/gpipe/place"
)

// Placement says which device each stage of a network is on: stage s, counted from 0 in
// the order of the layers, is on device Device[s]. A device may have several stages, its
// chunks, which are counted from 0 in the order of the layers as well.
type Placement struct {
	Devices int
	Device  []int
}

// Straight has one stage on each device, in order.
func Straight(devices int) Placement { return Loop(devices, 1) }

// Loop goes over all devices as often as each has chunks: stage s is on device s mod
// devices (Narayanan et al., arXiv 2104.04473, section 2.2).
func Loop(devices, chunks int) Placement {
	p := Placement{Devices: devices}
	for range chunks {
		for d := range devices {
			p.Device = append(p.Device, d)
		}
	}
	return p
}

// Vee goes over all devices and back: the first and the last stage are on device 0 (Qi et
// al., arXiv 2401.10241, section 6).
func Vee(devices int) Placement {
	p := Straight(devices)
	for d := range devices {
		p.Device = append(p.Device, devices-1-d)
	}
	return p
}

// Or is the placement, or, if that is the zero value, one stage on each of the devices.
func (p Placement) Or(devices int) Placement {
	if p.Devices == 0 {
		return Straight(devices)
	}
	return p
}

// IsStraight reports whether each device has one stage, in order.
func (p Placement) IsStraight() bool {
	for s, d := range p.Device {
		if s != d {
			return false
		}
	}
	return len(p.Device) == p.Devices
}

// Pieces are the stages as pieces of a network, and their places.
func (p Placement) Pieces() place.Pieces { return place.NewPieces(p.Devices, p.Device) }

// Stages is their number.
func (p Placement) Stages() int { return len(p.Device) }

// Chunks are the stages of each device, in order.
func (p Placement) Chunks() [][]int {
	chunks := make([][]int, p.Devices)
	for s, d := range p.Device {
		chunks[d] = append(chunks[d], s)
	}
	return chunks
}

// Check returns an error for a placement without devices, a stage without a device, and a device without a stage.
func (p Placement) Check() error {
	if p.Devices < 1 {
		return fmt.Errorf("schedule: %d devices: want 1 or more", p.Devices)
	}
	for s, d := range p.Device {
		if d < 0 || d >= p.Devices {
			return fmt.Errorf("schedule: stage %d is on device %d: want 0 to %d", s, d, p.Devices-1)
		}
	}
	for d := range p.Devices {
		if !slices.Contains(p.Device, d) {
			return fmt.Errorf("schedule: device %d has no stage: want one or more", d)
		}
	}
	return nil
}
