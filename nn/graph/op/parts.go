package op

// Parts says how the devices of a stage divide its operations: Count of them, which is T, and in
// Sequence whether what is between divided operations is divided as well, by tokens. A graph
// with the operations below is the function of one part, and is only planned and costed.
type Parts struct {
	Count    int
	Sequence bool
}

// Enter is where a value comes into an operation that the parts divide: with Sequence they gather
// the tokens of all, (n, t/T, ...) to (n, t, ...), and else each has the value already. Rows is
// how many float32 numbers for each token the parts add up besides, in the forward function: of a
// softmax over a divided vocabulary the largest logit, the sum and the target's logit.
type Enter struct {
	Parts
	Rows int
}

// EnterGrad adds up the parts' gradients of an entered value; with Sequence each part gets those
// of its tokens, and what was gathered is gathered again, since no part keeps all of it.
type EnterGrad struct{ Parts }

// Leave adds up the parts' summands of a result; with Sequence each part gets the sums of its
// tokens, (n, t, ...) to (n, t/T, ...).
type Leave struct{ Parts }

// LeaveGrad gathers the gradients of all tokens, with Sequence.
type LeaveGrad struct{ Parts }

// Local is what a part of a stage does in place of an operation, or beside it: Of is known to package
// program alone. FLOPs are 2 x multiply-adds, InPlace as of the operation. No graph has it.
type Local struct {
	Name    string
	Of      any
	FLOPs   int64
	InPlace []int
}
