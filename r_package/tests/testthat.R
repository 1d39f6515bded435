library(testthat)
library(llamaherd)

test_check("llamaherd")
