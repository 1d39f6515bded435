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

test_that("the news texts have the form that tutorials for localLLM expect", {
  loaded <- new.env()
  utils::data("ag_news_sample", package = "llamaherd", envir = loaded)
  news <- loaded$ag_news_sample
  expect_identical(dim(news), c(100L, 3L))
  expect_identical(unname(vapply(news, class, "")), rep("character", 3))
  classes <- c("World", "Sports", "Business", "Sci/Tech")
  expect_named(news, c("class", "title", "description"))
  expect_identical(news$class, rep(classes, each = 25))
  expect_identical(anyDuplicated(news$description), 0L)
  expect_true(all(nzchar(unlist(news))) && !any(grepl("[^ -~]", unlist(news))))
})
