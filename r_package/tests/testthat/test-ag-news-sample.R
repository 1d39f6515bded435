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
