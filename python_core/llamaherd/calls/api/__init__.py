"""The public calls: conversion of arguments to requests."""
