// Package page writes the report: HTML pages of all results.
//
// The first paper's page is the one that a reader opens first: its first screen shows the outcome of
// the paper's main sentences, and the most informative picture. Every other paper with records has a
// page. Each paper also has a page with all its claims, which can be filtered, and a page for
// experiments that are kept apart (section 6 of the first paper), which begins with the text of the
// first of these. The last page is for exploring schedules with sliders. On a wide screen the table of
// contents stays next to the text, on a phone it is a closed menu. The first table of an experiment is
// open, the others are closed; captions and notes show two lines.
//
// Except for the schedule page they have no scripts, and none loads external files. They follow the
// colour scheme of the reader's system; in print they are light, and everything is open.
// `make check-report` opens them in headless Chromium at 400, 1280 and 1920 pixels, light and dark,
// with and without Liberation Sans, and checks that nothing is wider than the window, the console has
// no message, no file is requested, and no letter in a plot is smaller than 9 pixels.
package page
