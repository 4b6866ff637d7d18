package records

// Key says which samples may stand beside each other: those of one spec, one
// profile and one machine. What measured them, the engine, is in their sessions'
// provenance.
type Key struct {
	Experiment string `json:"experiment"`
	Profile    string `json:"profile"`
	Spec       string `json:"spec"` // hash of the spec's text
	Machine    string `json:"machine"`
}
