test_that("the examples of all help pages can be parsed", {
  pages <- tools::Rd_db("llamaherd")
  expect_gt(length(pages), 50)
  file <- withr::local_tempfile()
  for (name in names(pages)) {
    unlink(file)
    tools::Rd2ex(pages[[name]], file, commentDontrun = FALSE)
    if (file.exists(file)) {
      problem <- tryCatch(
        {
          parse(file, encoding = "UTF-8")
          ""
        },
        error = conditionMessage
      )
      expect_identical(problem, "", info = name)
    }
  }
})
