package suite

// Report is what an experiment has to show.
type Report struct {
	Tables []*Table
	Files  []File // beside the tables
	// Verdict is nil unless the experiment has found something that must not be.
	Verdict error
}

// File is a file of a report.
type File struct {
	Name string
	Text string
}
