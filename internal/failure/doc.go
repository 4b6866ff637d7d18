// Package failure distinguishes why something failed: a request that cannot be carried out as
// given ([UsageError]), a bug in this program ([Defect]), or a child process that ended
// early ([Ending]).
//
// An error is one line of at most a thousand characters: what is wrong, where, and what would be
// accepted. The exit status is 2 if the request cannot be carried out whatever the files and the machine
// (an unknown name, a number out of range), and 1 for everything else. A layer that does not
// fit its input panics with a *graph.Misuse, which becomes an error; any other recovered panic
// is a defect, whose line says where and names a file in the temporary directory that has the
// trace.
package failure
