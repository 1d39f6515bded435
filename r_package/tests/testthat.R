library(testthat)
library(llamaherd)

# A regular expression for the names of test files, or empty for all.
files <- Sys.getenv("LLAMAHERD_TEST_FILES")
test_check("llamaherd", filter = if (nzchar(files)) files)
