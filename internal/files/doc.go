// Package files writes and reads every file that has a name. It is internal and
// at the module's root, since packages of all layers, from safetensors to the
// command, need it and no other module does.
//
// Writing is all or nothing: [Write] makes a file beside the named one and
// moves it there when it is complete and on the disk. Only the log of a long
// run grows piece by piece ([Grow]). Reading is bounded: [Read] and [Open] know
// the maximum size of a file before they allocate memory.
//
// A file is a regular one, or a symbolic link to one. Pipes, devices and
// descriptors are refused, since a device never ends and a pipe may wait for
// ever. The exception is what is read once: the name - or /dev/stdin is the
// standard input there.
//
// Every error is an [Error]: the name as it was given, and the reason.
//
// Sizes that a file declares are compared with its own size before memory is allocated for
// them. A program reads at most
//
//	a spec; an accelerator; published tables    64 KiB; 4 MiB; 4 MiB
//	a profile; a ledger; a file of hosts        1 MiB each
//	a schedule; a page of documentation         64 MiB; 16 MiB
//	records; one of them; a round's request     256 MiB; 8 MiB; 16 MiB
//	a file of tables                            16 MiB
//	text:                                       1 GiB
//	gettext:, a catalog; all of them            64 MiB; 1 GiB and 5,000,000 pairs
//	mnist:, cifar10:, cifar100:, each file      1 GiB, as it is and decompressed
//	an image of images:                         256 MiB, 2^26 pixels; in memory 4 GiB in all
//	headers of weights                          100 MB
//	a snapshot's manifest; its progress         16 MiB; 1 GiB
//
// A new file has the permissions that umask allows; one that replaces another keeps that
// one's. A symbolic link stays, and its target is written. The ending of a name decides the
// format. An unfinished file is locked by its writer; the next write in its directory removes
// unlocked ones, which killed processes have left.
package files
