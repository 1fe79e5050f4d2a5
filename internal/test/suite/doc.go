// Suite runs go test, and tells last what failed:
//
//	suite [-log FILE] [-strict] [-memory] [-plain] [-with PID] [-stuck TIME] -- FLAG... -- PACKAGE...
//	suite -script [-with PID] -- COMMAND...
//
// FLAGs are go test's own. The whole log goes into a file, whose path is the first line. Each package has a line when
// it ends. After the counts come at most 100 lines about what failed. With -strict a skipped test is a failure, but
// for a case of the suite of all drivers that says that it does not apply. With -memory the tests have a /tmp of their own in
// memory, where that can be had. A package in which no test began or ended for 15 minutes, or for TIME, is stuck: it gets SIGQUIT,
// and fails with the names of the tests that ran and with their stacks. With -with the run ends if its parent PID ends, or is make and got
// SIGINT. If the suite gets SIGKILL, a guard that it started ends go test and its tests. With -plain it prints all that the
// tests say as they say it, and there is no second look. With -script it runs a command in the place of go test, which ends in the
// same ways with all that it started.
//
// A test that fails is run alone three times, and then its package once more. All have to pass. Then it is UNSTEADY: it is printed and counted, and
// does not fail the run. docs/testing.md says when there is no second look.
package main
