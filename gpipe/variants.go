package gpipe

// SimulateVariants is Simulate once for each variant of a pipeline, of programs
// that are compiled once. A variant changes what programs do not depend on:
// Schedule, Checkpoint, LateRecompute, and the links of its Devices.
func (p Pipeline) SimulateVariants(in Input, how Modelling, variants ...func(*Pipeline)) ([]*Simulation, error) {
	n, err := p.modelled(in, how)
	if err != nil {
		return nil, err
	}
	described := n.Pipeline
	var all []*Simulation
	for _, change := range variants {
		n.Pipeline = described
		n.Devices = append([]Device(nil), described.Devices...)
		change(&n.Pipeline)
		if err := n.Validate(in); err != nil {
			return nil, err
		}
		s, err := n.simulate(how)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}
