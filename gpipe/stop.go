package gpipe

// Processes that run a pipeline together must end after the same step. One that wants to
// stop says so in the reports of its stages, which all processes read at the end of each
// step: that takes no message of its own.

// AskToStop makes [Trainer.StopAsked] true from the end of the next step, evaluation or
// prediction on: of the same one in all processes that run the pipeline. It does not
// wait, and any goroutine may call it at any time. The trainer itself can go on.
func (t *Trainer) AskToStop() { t.stopping.Store(true) }

// StopAsked reports whether a process had called AskToStop before its part of the last
// step, evaluation or prediction ended.
func (t *Trainer) StopAsked() bool { return t.stopAsked }
