package timeline

import (
	"cmp"
	"fmt"
)

// crossings checks the transfers, direct or in two legs, if there are any.
func (v *validator) crossings(tl *Timeline) error {
	type crossing struct {
		to       int
		micro    int
		backward bool
	}
	legs := map[Kind]map[crossing]*Event{Transfer: {}, ToHost: {}, FromHost: {}}
	found := false
	groups := v.groups(tl)
	for i := range tl.Events {
		e := &tl.Events[i]
		if !e.Kind.Crosses() {
			continue
		}
		if e.Micro == -1 {
			from, to := e.At.Stage, e.Peer.Stage
			if e.Kind == FromHost {
				from, to = to, from
			}
			if !v.exists(e.Peer) || from == to {
				return fmt.Errorf("%v between stages %d and %d of %d: want two different stages", e, from, to, v.pieces.Devices())
			}
			if err := v.exchanged(e, from, to, groups); err != nil {
				return err
			}
			continue
		}
		found = true
		if !v.exists(e.Peer) {
			return fmt.Errorf("%v between stages %d and %d of %d: want neighbours", e, e.At.Stage, e.Peer.Stage, v.stages)
		}
		from, to := v.pieces.Piece(e.At), v.pieces.Piece(e.Peer)
		if e.Kind == FromHost {
			from, to = to, from
		}
		step := 1
		if e.Backward {
			step = -1
		}
		if to != from+step || min(from, to) < 0 || max(from, to) >= v.stages || e.Micro < 0 || e.Micro >= v.micro {
			return fmt.Errorf("%v between stages %d and %d of %d: want neighbours, activations forward and gradients backward, micro-batches 0 to %d",
				e, from, to, v.stages, v.micro-1)
		}
		c := crossing{to, e.Micro, e.Backward}
		if other := legs[e.Kind][c]; other != nil {
			return fmt.Errorf("%v is there twice: also %v", e, other)
		}
		legs[e.Kind][c] = e
	}
	if !found {
		return nil
	}
	check := func(c crossing, made *Event, needed ...*Event) error {
		direct, out, in := legs[Transfer][c], legs[ToHost][c], legs[FromHost][c]
		if direct == nil && out == nil && in == nil && made.At.Stage == v.pieces.At(0, c.to).Stage {
			return nil // handed over within a device
		}
		if (direct != nil) == (out != nil) || (out != nil) != (in != nil) {
			return fmt.Errorf("the output of %v must reach stage %d in one transfer or in two legs through the host", made, c.to)
		}
		first, last := direct, direct
		if direct == nil {
			first, last = out, in
			if err := follows(in, out); err != nil {
				return err
			}
		}
		if err := follows(first, made); err != nil {
			return err
		}
		for _, n := range needed {
			if err := follows(n, last); err != nil {
				return err
			}
		}
		return nil
	}
	for k := range v.stages - 1 {
		for m := range v.micro {
			lateR := v.r[k][m]
			if !v.late {
				lateR = nil
			}
			if err := cmp.Or(
				check(crossing{k + 1, m, false}, v.f[k][m], v.f[k+1][m]),
				check(crossing{k, m, true}, v.b[k+1][m], v.b[k][m], lateR),
			); err != nil {
				return err
			}
		}
	}
	return nil
}

// groups are the additions of groups, by device and last micro-batch.
func (v *validator) groups(tl *Timeline) [][]*Event {
	t := v.table()[:v.pieces.Devices()]
	for i := range tl.Events {
		if e := &tl.Events[i]; e.Kind == Reduce && e.Micro >= 0 && e.Micro < v.micro {
			t[e.At.Stage][e.Micro] = e
		}
	}
	return t
}

// exchanged checks a transfer of no micro-batch.
func (v *validator) exchanged(e *Event, from, to int, groups [][]*Event) error {
	last := v.micro - 1
	if v.micro == 0 || e.Start >= v.added(from, last).End {
		return nil
	}
	for m := last - 1; m >= 0; m-- {
		if groups[from][m] != nil && e.Start >= v.added(from, m).End {
			return follows(groups[to][m], e)
		}
	}
	return follows(e, v.added(from, last))
}
